// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.plan.Classifier;
import dev.berth.plan.ConfigClass;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;

/**
 * A load, the ways to run it, and what must come out.
 *
 * @param name file name without its ending
 * @param title one line for people
 * @param source where the figures were published
 * @param notes what a reader must know
 * @param load the requests
 * @param cost time of a forward
 * @param transferMicros time of a KV transfer
 * @param arms at least one
 * @param comparisons between arms
 * @param expectedClass what the published predicate must say
 */
public record Scenario(
    String name,
    String title,
    Optional<String> source,
    List<String> notes,
    Load load,
    CostModel cost,
    double transferMicros,
    List<Arm> arms,
    List<Comparison> comparisons,
    Optional<ExpectedClass> expectedClass) {
  /** The class that the published predicate must give an arm. */
  public record ExpectedClass(String arm, ConfigClass is) {}

  public Scenario {
    notes = List.copyOf(notes);
    arms = List.copyOf(arms);
    comparisons = List.copyOf(comparisons);
  }

  /**
   * The same with some arms only; what is said about others goes with them.
   *
   * @throws BerthException CONFIGURATION naming the arms there are if one of the names is none
   */
  public Scenario withArms(Collection<String> names) {
    List<String> known = arms.stream().map(Arm::name).toList();
    for (String name : names) {
      if (!known.contains(name)) {
        throw new BerthException(
            Code.CONFIGURATION,
            "%s: there is no arm '%s'; its arms: %s"
                .formatted(this.name, name, String.join(", ", known)));
      }
    }
    return new Scenario(
        name,
        title,
        source,
        notes,
        load,
        cost,
        transferMicros,
        arms.stream().filter(arm -> names.contains(arm.name())).toList(),
        comparisons.stream()
            .filter(c -> names.contains(c.base()) && names.contains(c.other()))
            .toList(),
        expectedClass.filter(expected -> names.contains(expected.arm())));
  }

  /** Two arms that are declared different and aren't. */
  public record Twins(Arm first, Arm second) {
    /** What is wrong with them, one sentence. */
    public String message() {
      return "arms %s and %s are declared different, but their effective plans are equal: %s"
          .formatted(first.name(), second.name(), second.describe());
    }
  }

  /**
   * A null result must not be vacuous: arms that are declared different must be different when they
   * run.
   *
   * @return the first two that aren't
   */
  public static Optional<Twins> twins(List<Arm> arms) {
    Map<Object, Arm> seen = new LinkedHashMap<>();
    for (Arm arm : arms) {
      Arm twin = arm.sameAs().isPresent() ? null : seen.putIfAbsent(arm.effective(), arm);
      if (twin != null) {
        return Optional.of(new Twins(twin, arm));
      }
    }
    return Optional.empty();
  }

  /** What the published predicate says of an arm under this load. */
  public ConfigClass classOf(String arm) {
    Arm found =
        arms.stream()
            .filter(a -> a.name().equals(arm))
            .findFirst()
            .orElseThrow(() -> new BerthException(Code.CONFIGURATION, "there is no arm " + arm));
    return Classifier.classify(
        found.engine().plan().shape(),
        OptionalInt.of(load.concurrency()),
        OptionalInt.of(load.groups().getFirst().inputTokens()));
  }
}
