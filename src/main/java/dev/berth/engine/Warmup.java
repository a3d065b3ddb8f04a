// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.kv.KvBuffer;
import dev.berth.kv.KvLayout;
import dev.berth.kv.KvReach;
import dev.berth.kv.KvSizes;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.Trait;
import dev.berth.plan.WorkerShape;
import dev.berth.request.Prompt;
import dev.berth.request.Request;
import dev.berth.route.RouteKernels;
import java.util.List;

/** Small engines with little to do, run until what they are made of is linked and compiled. */
final class Warmup {
  private static final int STEPS = 6000;
  private static final int BATCH = 8;
  private static final int PROMPT = 12;
  private static final int OUTPUT = 40;
  private static final int TOKENS_PER_BLOCK = 4;
  private static boolean done;

  private Warmup() {}

  static synchronized void run() {
    if (done) {
      return;
    }
    RouteKernels.preload();
    KvLayout layout =
        KvLayout.plan(TOKENS_PER_BLOCK, List.of(KvBuffer.of(0, KvBuffer.KEY, 64, KvReach.FULL)));
    warm(config(KvSetup.UNLIMITED));
    warm(config(KvSetup.paged(layout, KvSizes.device(4L * BATCH * OUTPUT))));
    done = true;
  }

  private static EngineConfig config(KvSetup kv) {
    WorkerShape shape =
        WorkerShape.builder(BATCH)
            .ranks(2)
            .maxSeqLen(PROMPT + OUTPUT)
            .tokensPerBlock(TOKENS_PER_BLOCK)
            .with(Trait.ATTENTION_DP, Trait.OVERLAP)
            .build();
    SeatPlan plan = SeatPlan.of(shape, SeatPolicy.UNIFIED).orThrow();
    return EngineConfig.builder(plan, WorkerRole.AGGREGATED).kv(kv).build();
  }

  private static void warm(EngineConfig config) {
    try (Engine engine = Engine.builder(config).open()) {
      for (int step = 0; step < STEPS; step++) {
        if (step % 3 == 0) {
          int[] prompt = new int[PROMPT];
          prompt[PROMPT - 1] = step;
          RequestHandle handle =
              engine.submit(
                  Request.of(step, PROMPT, 1 + step % OUTPUT).withPrompt(Prompt.of(prompt)));
          handle.tokens().poll();
          if (step % 30 == 0) {
            handle.cancel();
          }
        }
        StepPlan plan = engine.step(step);
        for (BatchView batch : plan.launches()) {
          batch.seats();
          if (engine.setup(batch.rank(), 0).kv().isPresent()) {
            batch.inputs();
            batch.tables();
          }
        }
        for (BatchView batch : plan.dues()) {
          for (int i = 0; i < batch.size(); i++) {
            if (batch.makesToken(i)) {
              plan.result().token(batch, i, i);
            }
          }
        }
        engine.commit(plan.result());
      }
    }
  }
}
