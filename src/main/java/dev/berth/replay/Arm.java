// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.engine.EngineConfig;
import dev.berth.engine.FillRules;
import dev.berth.request.WaitingQueue;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * One way to run a scenario's load.
 *
 * @param name short, unique in the scenario
 * @param title one line for people
 * @param engine what runs
 * @param expect figures that must come out
 * @param mustFail checks that must fail, each with its count; every other must pass
 * @param sameAs an arm that is declared to be the same and must give the same decisions
 */
public record Arm(
    String name,
    String title,
    EngineConfig engine,
    List<Expectation> expect,
    Map<Check, Long> mustFail,
    Optional<String> sameAs) {
  public Arm {
    expect = List.copyOf(expect);
    mustFail = Map.copyOf(mustFail);
    FleetRun.requireRoom(engine, 1);
  }

  /** What decides about the arm's effect: two arms that are declared different differ here. */
  public Object effective() {
    return List.of(
        engine.plan().effective(),
        engine.stages(),
        engine.plan().shape().maxNumTokens(),
        engine.plan().shape().draftTokens(),
        engine.plan().shape().tokensPerBlock(),
        engine.role(),
        engine.rangeEnd(),
        engine.mark(),
        engine.transfer(),
        engine.chunkedContext(),
        engine.pages(),
        engine.gate(),
        engine.retiringRule(),
        engine.cap(),
        engine.queue(),
        engine.policies(),
        engine.capacity(),
        engine.scheduler(),
        engine.ownPolicy(),
        engine.router(),
        engine.hold(),
        engine.encoderWait(),
        engine.gate().active() ? engine.fill() : "");
  }

  /** The effective plan in one line. */
  public String describe() {
    return engine.plan().describe()
        + ", "
        + engine.loop().name().toLowerCase(java.util.Locale.ROOT).replace('_', '-')
        + " loop, range [10, "
        + engine.rangeEnd()
        + ")"
        + (engine.gate().active()
            ? ", " + engine.gate().kind().name().toLowerCase(java.util.Locale.ROOT) + " gate"
            : "")
        + (engine.gate().active() && !engine.fill().equals(FillRules.of(engine.policies()))
            ? ", " + engine.fill().describe()
            : "")
        + (engine.cap() == dev.berth.route.RankCap.OFF ? ", router cap off" : "")
        + (engine.router().equals(dev.berth.route.RouterChoice.DEFAULT)
            ? ""
            : ", " + engine.router())
        + (engine.queue().policy() == WaitingQueue.Policy.FCFS
            ? ""
            : ", " + engine.queue().policy().name().toLowerCase(java.util.Locale.ROOT) + " queue")
        + (engine.scheduler() == dev.berth.capacity.SchedulerKind.ONE_LOOP ? ", one loop" : "")
        + engine.hold().describe()
        + (engine.encoderWait().rules().active() ? ", encoders wait for each other" : "")
        + ", "
        + engine.policies().id();
  }
}
