// SPDX-License-Identifier: Apache-2.0
package dev.berth.internal;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

class MountOptionsTest {
  private static final List<String> MOUNTS =
      List.of(
          "/dev/vda / ext4 rw,relatime 0 0",
          "tmpfs /tmp tmpfs rw,noexec 0 0",
          "tmpfs /tmp/with\\040blank tmpfs rw,nosuid 0 0",
          "tmpfs /over tmpfs rw,noexec 0 0",
          "tmpfs /over tmpfs ro 0 0",
          "garbage");

  @Test
  void theDeepestMountThatHoldsTheFileCounts() {
    assertThat(MountOptions.of(Path.of("/home/a"), MOUNTS))
        .containsExactlyInAnyOrder("rw", "relatime");
    assertThat(MountOptions.of(Path.of("/tmp/a.so"), MOUNTS)).contains("noexec");
    assertThat(MountOptions.of(Path.of("/tmp/with blank/a.so"), MOUNTS))
        .containsExactlyInAnyOrder("rw", "nosuid");
  }

  @Test
  void aFolderIsNoPrefixOfItsNeighbour() {
    assertThat(MountOptions.of(Path.of("/tmpfiles/a.so"), MOUNTS)).doesNotContain("noexec");
  }

  @Test
  void ofTwoMountsOnOneFolderTheLaterIsSeen() {
    assertThat(MountOptions.of(Path.of("/over/a.so"), MOUNTS)).containsExactly("ro");
  }

  @Test
  void whereNothingIsKnownNothingIsClaimed() {
    assertThat(MountOptions.of(Path.of("/tmp/a.so"), List.of())).isEmpty();
  }
}
