// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.engine.log.LogException.Kind;
import dev.berth.route.Seeds;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Optional;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Files that are no log, and logs that were cut, damaged or made up. */
class DamagedLogTest {
  private static final long SEED = 20261130;

  /** A log of a few steps: every one of its bytes is going to be damaged. */
  private static byte[] small() {
    for (long seed = SEED; ; seed++) {
      byte[] log = RandomRun.log(seed);
      if (log.length < 1500 && LogFiles.replay(log).steps() > 9) {
        return log;
      }
    }
  }

  private static void refused(byte[] file, Kind kind, long offset) {
    assertThatThrownBy(() -> LogFiles.replay(file))
        .isInstanceOfSatisfying(
            LogException.class,
            e -> {
              assertThat(e.kind()).isEqualTo(kind);
              assertThat(e.offset()).isEqualTo(offset);
              assertThat(e).hasMessageContaining("byte " + offset);
            });
  }

  @Test
  void aFileThatIsNoLogIsSaidToBeNone() {
    refused(new byte[0], Kind.NOT_A_LOG, 0);
    refused("scenario: 1\ntitle: a text\n".getBytes(), Kind.NOT_A_LOG, 0);
    refused(Arrays.copyOf(small(), 7), Kind.NOT_A_LOG, 0);
  }

  @Test
  void anotherVersionIsRefusedByItsNumber() {
    byte[] log = small();
    System.arraycopy(LogFiles.header(2), 0, log, 0, LogFormat.FILE_HEADER);
    refused(log, Kind.VERSION, 8);
    assertThatThrownBy(() -> LogFiles.replay(log))
        .hasMessageContaining("version 2, this Berth reads version 1");
  }

  /** What went wrong with a file, whether before its engines were made or behind that. */
  private static Optional<LogException> damage(byte[] file) {
    try {
      return LogFiles.replay(file).damage();
    } catch (LogException e) {
      return Optional.of(e);
    }
  }

  @Test
  void aLogCutAnywhereIsNoticedWhereItEnds() {
    byte[] log = LogFiles.sealed(LogFiles.payload(small()), 256);
    int open = 0;
    for (int length = LogFormat.MAGIC.length; length < log.length; length++) {
      byte[] cut = Arrays.copyOf(log, length);
      Optional<LogException> found = damage(cut);
      if (found.isEmpty()) {
        LogReplay.Result result = LogFiles.replay(cut);
        assertThat(result.ending()).as("cut to %d", length).isEqualTo(LogReplay.Ending.OPEN);
        assertThat(result.same()).isTrue();
        open++;
      } else {
        assertThat(found.get().kind()).as("cut to %d", length).isEqualTo(Kind.TRUNCATED);
        assertThat(found.get().offset()).isEqualTo(length);
      }
    }
    assertThat(open).as("cut between two records").isLessThan(log.length / 256 + 1);
  }

  @Test
  void everyFlippedBitIsNoticed() {
    byte[] log = LogFiles.sealed(LogFiles.payload(small()), 512);
    for (int at = 0; at < log.length; at++) {
      for (int bit = 0; bit < 8; bit++) {
        byte[] flipped = log.clone();
        flipped[at] ^= (byte) (1 << bit);
        LogException found = damage(flipped).orElseThrow();
        assertThat(found.offset()).as("byte %d", at).isBetween(0L, (long) log.length);
      }
    }
  }

  @Test
  void theStepsBeforeTheDamageAreRun() {
    byte[] payload = LogFiles.payload(small());
    byte[] log = LogFiles.sealed(payload, payload.length - 40);
    log[log.length - 3] ^= 1;
    LogReplay.Result result = LogFiles.replay(log);
    assertThat(result.ending()).isEqualTo(LogReplay.Ending.DAMAGED);
    assertThat(result.steps()).isPositive();
    assertThat(result.difference()).isEmpty();
    assertThat(result.damage().orElseThrow().kind()).isEqualTo(Kind.CHECKSUM);
  }

  @Test
  void whatFollowsTheEndIsNoticed() {
    byte[] payload = LogFiles.payload(small());
    byte[] longer = Arrays.copyOf(payload, payload.length + 1);
    assertThat(damage(LogFiles.sealed(longer, 1 << 16)).orElseThrow().kind())
        .isEqualTo(Kind.MALFORMED);
  }

  // ------------------------------------------------------------------------------ made-up logs

  /** Whole blocks with right checksums around records that nobody wrote. */
  @Test
  void madeUpRecordsAreRefusedOrRunOtherwiseAndNothingElseHappens() {
    mutate(6_000);
  }

  @Tag("deep")
  @Test
  void manyMadeUpRecordsAreRefusedOrRunOtherwise() {
    mutate(150_000);
  }

  private static void mutate(int count) {
    long seed = Seeds.seed("DamagedLogTest");
    var kinds = EnumSet.noneOf(Kind.class);
    int damaged = 0;
    int different = 0;
    byte[] payload = {};
    for (int i = 0; i < count; i++) {
      RandomGenerator random = Seeds.generator(seed + i);
      if (i % 50 == 0) {
        payload = LogFiles.payload(RandomRun.log(seed + i));
      }
      byte[] mutant = payload;
      for (int n = random.nextInt(1, 4); n > 0; n--) {
        mutant = mutated(mutant, random);
      }
      if (mutant.length == 0) {
        continue;
      }
      byte[] log = LogFiles.sealed(mutant, random.nextInt(1, 1024));
      try {
        LogReplay.Result result = LogFiles.replay(log);
        result.damage().ifPresent(e -> kinds.add(e.kind()));
        damaged += result.damage().isPresent() ? 1 : 0;
        different += result.difference().isPresent() ? 1 : 0;
        result.difference().ifPresent(d -> assertThat(d.describe()).isNotEmpty());
      } catch (LogException e) {
        damaged++;
        assertThat(e.offset()).isBetween(0L, (long) log.length);
      } catch (RuntimeException | Error e) {
        throw new AssertionError("-Dberth.seed=" + (seed + i), e);
      }
    }
    System.out.printf("%d logs: %d damaged, %d different%n", count, damaged, different);
    assertThat(damaged).isGreaterThan(count / 4);
    assertThat(different).isGreaterThan(count / 20);
    assertThat(kinds).contains(Kind.MALFORMED);
  }

  private static byte[] mutated(byte[] bytes, RandomGenerator random) {
    if (bytes.length < 2) {
      return bytes;
    }
    int at = random.nextInt(bytes.length);
    int n = Math.min(random.nextInt(1, 12), bytes.length - at);
    return switch (random.nextInt(5)) {
      case 0 -> changed(bytes, at, (byte) (bytes[at] ^ 1 << random.nextInt(8)));
      case 1 -> changed(bytes, at, (byte) random.nextInt());
      case 2 -> changed(bytes, at, (byte) (bytes[at] + (random.nextBoolean() ? 1 : -1)));
      case 3 -> { // twice
        byte[] longer = Arrays.copyOf(bytes, bytes.length + n);
        System.arraycopy(bytes, at, longer, at + n, bytes.length - at);
        yield longer;
      }
      default -> { // left out
        byte[] shorter = Arrays.copyOf(bytes, bytes.length - n);
        System.arraycopy(bytes, at + n, shorter, at, bytes.length - at - n);
        yield shorter;
      }
    };
  }

  private static byte[] changed(byte[] bytes, int at, byte value) {
    byte[] copy = bytes.clone();
    copy[at] = value;
    return copy;
  }
}
