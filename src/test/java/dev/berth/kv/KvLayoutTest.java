// SPDX-License-Identifier: Apache-2.0
package dev.berth.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class KvLayoutTest {
  private static KvBuffer key(int layer, long bytes) {
    return KvBuffer.of(layer, KvBuffer.KEY, bytes, KvReach.FULL);
  }

  private static KvBuffer value(int layer, long bytes) {
    return KvBuffer.of(layer, KvBuffer.VALUE, bytes, KvReach.FULL);
  }

  @Test
  void buffersOfOneLifeCycleAndSizeStandSideBySide() {
    KvLayout layout =
        KvLayout.plan(32, List.of(key(0, 100), value(0, 100), key(1, 100), value(1, 100)));
    assertThat(layout.pools()).isEqualTo(1);
    assertThat(layout.pool(0)).isEqualTo(new KvLayout.Pool(0, 0, 400));
    assertThat(layout.view(0)).isEqualTo(new KvLayout.View(0, 0, 4, 1));
    assertThat(layout.place(2)).isEqualTo(new KvLayout.Place(0, 0, 2, 1, 100, 200));
    assertThat(layout.maxSlots(0)).isEqualTo((1L << 28));
  }

  @Test
  void poolsOfALifeCycleComeInDescendingSize() {
    KvLayout layout = KvLayout.plan(32, List.of(key(0, 8), value(0, 64), key(1, 8)));
    assertThat(layout.pool(0).slotBytes()).isEqualTo(64);
    assertThat(layout.pool(1).slotBytes()).isEqualTo(16);
    assertThat(layout.view(0).valueOffset()).isZero();
    assertThat(layout.slotBytes(0)).isEqualTo(80);
  }

  @Test
  void lifeCyclesWhoseSlotsHaveTheSameSizesShareAGroup() {
    KvLayout layout =
        KvLayout.plan(
            32,
            List.of(
                key(0, 64),
                KvBuffer.of(1, 0, 64, KvReach.window(128)),
                KvBuffer.of(2, 0, 64, new KvReach.Window(128, 4)),
                KvBuffer.of(3, 0, 512, KvReach.STATE),
                new KvBuffer(0, 0, 64, KvReach.FULL, 0, 1)));
    assertThat(layout.lifeCycles()).isEqualTo(5);
    assertThat(layout.groups()).isEqualTo(2);
    assertThat(layout.lifeCycle(2))
        .isEqualTo(new KvLayout.LifeCycle(new KvReach.Window(128, 4), 0, 0));
    assertThat(layout.lifeCycle(3).group()).isEqualTo(1);
    assertThat(layout.lifeCycle(4)).isEqualTo(new KvLayout.LifeCycle(KvReach.FULL, 1, 0));
  }

  @Test
  void aBufferOfSmallerBlocksHasMorePages() {
    KvLayout layout = KvLayout.plan(32, List.of(new KvBuffer(0, 0, 10, KvReach.FULL, 8, 0)));
    assertThat(layout.place(0)).isEqualTo(new KvLayout.Place(0, 0, 0, 4, 10, 0));
    assertThat(layout.view(0).scale()).isEqualTo(4);
    assertThat(layout.pool(0).slotBytes()).isEqualTo(40);
  }

  @Test
  void pageIndexesStayBelowTwoToTheThirtyOne() {
    List<KvBuffer> buffers = new ArrayList<>();
    for (int layer = 0; layer < 4096; layer++) {
      buffers.add(key(layer, 16));
      buffers.add(value(layer, 16));
    }
    KvLayout layout = KvLayout.plan(32, buffers);
    assertThat(layout.view(0).scale()).isEqualTo(8192);
    long slots = layout.maxSlots(0);
    assertThat(slots * 8192 - 1 + 1).isLessThanOrEqualTo(Integer.MAX_VALUE);
    assertThat((slots + 1) * 8192 - 1 + 1).isGreaterThan(Integer.MAX_VALUE);
  }

  @Test
  void scaleFactorsStandWhereTheirDataStands() {
    KvBuffer first = KvBuffer.of(0, 16, 4, KvReach.FULL);
    KvBuffer second = KvBuffer.of(1, 16, 4, KvReach.FULL);
    assertThat(KvLayout.plan(32, List.of(key(0, 64), key(1, 64), first, second)).pools())
        .isEqualTo(2);
    assertThatThrownBy(() -> KvLayout.plan(32, List.of(key(0, 64), key(1, 64), second, first)))
        .isInstanceOf(BerthException.class)
        .hasMessageContaining("buffer 2 can't be");
    assertThatThrownBy(() -> KvLayout.plan(32, List.of(key(0, 64), second)))
        .hasMessageContaining("buffer 1 can't be");
  }

  static Stream<KvBuffer> impossible() {
    return Stream.of(
        key(-1, 64),
        key(65536, 64),
        key(1, 0),
        key(1, (1L << 40) + 1),
        KvBuffer.of(1, -1, 64, KvReach.FULL),
        KvBuffer.of(1, 32, 64, KvReach.FULL),
        KvBuffer.of(1, 0, 64, KvReach.window(0)),
        KvBuffer.of(1, 0, 64, KvReach.window(-1)),
        KvBuffer.of(1, 0, 64, new KvReach.Window(5, -1)),
        new KvBuffer(1, 0, 64, KvReach.FULL, 5, 0),
        new KvBuffer(1, 0, 64, KvReach.FULL, 64, 0),
        new KvBuffer(1, 0, 64, KvReach.FULL, -1, 0),
        new KvBuffer(1, 0, 64, KvReach.FULL, 0, -1),
        new KvBuffer(1, 0, 1L << 40, KvReach.FULL, 8, 0),
        key(0, 64));
  }

  @ParameterizedTest
  @MethodSource("impossible")
  void theBufferThatCannotBeIsNamed(KvBuffer wrong) {
    assertThatThrownBy(() -> KvLayout.plan(32, List.of(key(0, 64), wrong)))
        .isInstanceOfSatisfying(
            BerthException.class, e -> assertThat(e.code()).isEqualTo(Code.CONFIGURATION))
        .hasMessageContaining("buffer 1 can't be");
  }

  @Test
  void blockSizesAndNumbersHaveARange() {
    for (int tokens : new int[] {0, -1, 1025}) {
      assertThatThrownBy(() -> KvLayout.plan(tokens, List.of(key(0, 64))))
          .hasMessageContaining("1 to 1024");
    }
    assertThatThrownBy(() -> KvLayout.plan(32, List.of())).isInstanceOf(BerthException.class);
  }
}
