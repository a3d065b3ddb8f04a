// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.Admission;
import dev.berth.engine.FillGate;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.RankEngine;
import dev.berth.request.RequestState;
import dev.berth.request.WaitReason;
import java.util.StringJoiner;

/** Says which rank waits for what when nothing can happen any more. */
final class StallReport {
  private static final int NAMED_RANKS = 8;

  private StallReport() {}

  static String describe(LockstepGroup group) {
    Admission admission = group.admission();
    var text = new StringJoiner("; ");
    FillGate gate = group.config().gate();
    int batch = group.config().plan().batchPositions().count();
    if (!admission.gateOpen()) {
      text.add(
          "the %s gate is closed: target %d, fetched %d"
              .formatted(
                  gate.kind().name().toLowerCase(java.util.Locale.ROOT),
                  gate.target(),
                  admission.fetched()));
    }
    int named = 0;
    for (int rank = 0; rank < group.config().ranks(); rank++) {
      RankEngine engine = group.engine(rank);
      var waits = new StringJoiner(", ");
      int generating =
          engine.count(RequestState.GENERATION)
              + engine.count(RequestState.GENERATION_TRANSFER_COMPLETE);
      if (!admission.gateOpen() && generating < batch) {
        waits.add("%d generating, %d short of %d".formatted(generating, batch - generating, batch));
      }
      if (engine.count(RequestState.GENERATION_INIT) > 0) {
        waits.add("%d in GENERATION_INIT".formatted(engine.count(RequestState.GENERATION_INIT)));
      }
      for (WaitReason reason : WaitReason.values()) {
        if (reason != WaitReason.NONE && reason != WaitReason.GATE && engine.deferred(reason) > 0) {
          waits.add(
              "%d wait for %s"
                  .formatted(
                      engine.deferred(reason), reason.name().toLowerCase(java.util.Locale.ROOT)));
        }
      }
      if (waits.length() > 0) {
        if (named++ == NAMED_RANKS) {
          text.add("and further ranks");
          break;
        }
        text.add("rank " + rank + ": " + waits);
      }
    }
    if (admission.waiting() > 0) {
      text.add(admission.waiting() + " wait for admission");
    }
    return text.toString();
  }
}
