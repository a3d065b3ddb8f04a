// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.berth.BerthException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Gathered states, read from words and from bytes. */
class RankLoadsTest {

  @Test
  void routableAndLiveAreTwoTotals() {
    RankLoads loads = RankLoads.of(List.of(RankState.of(0, 3, 30, 1), RankState.of(1, 0, 0, 2)));

    assertThat(loads.routable()).isEqualTo(3);
    assertThat(loads.live()).isEqualTo(6);
  }

  @Test
  void readsWordsAtAStride() {
    var loads = new RankLoads();

    loads.read(new long[] {0, 5, 50, 1, 7, -9, 1, 6, 60, 2, 0}, 6, 5, 2);

    assertTwoRanks(loads);
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 1, 128})
  void readsLittleEndianBytesAtAnyAlignment(int offset) {
    var loads = new RankLoads();
    ByteBuffer bytes = ByteBuffer.allocate(offset + 100).order(ByteOrder.LITTLE_ENDIAN);
    long[][] words = {{0, 5, 50, 1, 7}, {1, 6, 60, 2, 0}};
    for (int rank = 0; rank < 2; rank++) {
      for (int i = 0; i < 5; i++) {
        bytes.putLong(offset + rank * 60 + i * 8, words[rank][i]);
      }
    }

    loads.read(MemorySegment.ofBuffer(bytes), offset, 60, 5, 2);

    assertTwoRanks(loads);
  }

  private static void assertTwoRanks(RankLoads loads) {
    assertThat(loads.ranks()).isEqualTo(2);
    assertThat(loads.activeRequests(0)).isEqualTo(5);
    assertThat(loads.activeRequests(1)).isEqualTo(6);
    assertThat(loads.activeTokens(1)).isEqualTo(60);
    assertThat(loads.retiringRequests(1)).isEqualTo(2);
    assertThat(loads.pendingNewRequests()).isEqualTo(7);
    assertThat(loads.routable()).isEqualTo(11);
    assertThat(loads.live()).isEqualTo(14);
  }

  @Test
  void shortPayloadsHaveDefaultsEvenAfterLongOnes() {
    var loads = new RankLoads();
    loads.read(new long[] {0, 5, 50, 1, 7}, 5, 5, 1);

    loads.read(new long[] {0, 4}, 2, 2, 1);

    assertThat(loads.activeRequests(0)).isEqualTo(4);
    assertThat(loads.activeTokens(0)).isZero();
    assertThat(loads.live()).isEqualTo(4);
    assertThat(loads.pendingNewRequests()).isZero();
  }

  @Test
  void onlyRankZeroReportsPendingRequests() {
    var loads = new RankLoads();

    loads.read(new long[] {0, 0, 0, 0, 3, 1, 0, 0, 0, 8}, 5, 5, 2);

    assertThat(loads.pendingNewRequests()).isEqualTo(3);
  }

  @Test
  void aStateOutOfRankOrderIsRefusedAndLeavesNoRanks() {
    var loads = new RankLoads();
    loads.read(new long[] {0, 1}, 1, 1, 1);

    assertRefused(() -> loads.read(new long[] {0, 2}, 1, 1, 2));

    assertThat(loads.ranks()).isZero();
    assertRefused(() -> RankLoads.of(List.of(RankState.of(1, 0, 0, 0))));
  }

  @ParameterizedTest
  @CsvSource({"1,-1", "2,-1", "3,-1", "4,-1", "1,2147483648", "2,4611686018427387904"})
  void aWordOutsideItsRangeIsRefused(int index, long value) {
    long[] words = new long[5];
    words[index] = value;

    assertRefused(() -> new RankLoads().read(words, 5, 5, 1));
  }

  @ParameterizedTest
  @CsvSource({"0,0,1", "15,15,1", "5,6,1", "5,5,0", "5,5,3", "11,11,1", "2147483647,5,2"})
  void aShapeThatDoesNotFitIsRefused(int stride, int length, int ranks) {
    assertRefused(() -> new RankLoads().read(new long[10], stride, length, ranks));
    MemorySegment bytes = MemorySegment.ofArray(new byte[80]);
    assertRefused(() -> new RankLoads().read(bytes, 0, 8L * stride, length, ranks));
  }

  @ParameterizedTest
  @CsvSource({"-1,40", "81,40", "1,40", "0,47", "9223372036854775807,40", "0,9223372036854775807"})
  void bytesOutsideTheSegmentAreRefused(long offset, long stride) {
    MemorySegment bytes = MemorySegment.ofArray(new byte[80]);

    assertRefused(() -> new RankLoads().read(bytes, offset, stride, 5, 2));
  }

  @Test
  void noRanksAtAllAreRefused() {
    assertRefused(() -> RankLoads.of(List.of()));
  }

  private static void assertRefused(org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            BerthException.class,
            e -> assertThat(e.code()).isEqualTo(BerthException.Code.ARGUMENT));
  }
}
