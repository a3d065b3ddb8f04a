// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.internal.NativeRules;
import dev.berth.plan.PolicySet;
import java.util.EnumSet;
import java.util.Set;

/**
 * What the capacity stage goes by (spec 02 §3). Immutable.
 *
 * @param set parity or our own
 * @param rule the policy
 * @param maxRequests requests that may be scheduled in one iteration, 1 or more
 * @param lookahead steps to provide pages for
 * @param rangeBegin first schedulable state: 10, or 1 where encoders run
 * @param rangeEnd state behind the last schedulable one: 14, or 20 for parity
 * @param prefixSharing whether requests wait for a prefix
 * @param traits what the caches can do
 * @param adapterPages device pages for adapters, or {@link #NO_ADAPTERS}
 */
public record CapacityRules(
    PolicySet set,
    CapacityRule rule,
    int maxRequests,
    Lookahead lookahead,
    int rangeBegin,
    int rangeEnd,
    PrefixSharing prefixSharing,
    Set<CacheTrait> traits,
    int adapterPages) {
  /** No adapter manager: adapters cost nothing. */
  public static final int NO_ADAPTERS = -1;

  /** First state of the range without encoders. */
  public static final int CONTEXT_INIT = 10;

  /** First state of the range with encoders. */
  public static final int ENCODER_INIT = 1;

  /** End of the range that leaves retiring requests out. */
  public static final int RETIRING = 14;

  /** End of the range that parity needs. */
  public static final int COMPLETE = 20;

  public CapacityRules {
    traits = Set.copyOf(traits);
  }

  /** The rules of {@link PolicySet#BERTH_1}: prefixes are shared, the range ends at 14. */
  public static CapacityRules of(CapacityRule rule, int maxRequests) {
    return new CapacityRules(
        PolicySet.BERTH_1,
        rule,
        maxRequests,
        Lookahead.ONE_STEP,
        CONTEXT_INIT,
        RETIRING,
        PrefixSharing.ON,
        EnumSet.of(CacheTrait.SELF_REUSE),
        NO_ADAPTERS);
  }

  /** The rules of {@link PolicySet#TRTLLM_2026_09}: the range ends at 20. */
  public static CapacityRules parity(CapacityRule rule, int maxRequests) {
    return of(rule, maxRequests).withSet(PolicySet.TRTLLM_2026_09).withRange(CONTEXT_INIT, COMPLETE);
  }

  public CapacityRules withSet(PolicySet value) {
    return new CapacityRules(
        value,
        rule,
        maxRequests,
        lookahead,
        rangeBegin,
        rangeEnd,
        prefixSharing,
        traits,
        adapterPages);
  }

  public CapacityRules withLookahead(Lookahead value) {
    return new CapacityRules(
        set,
        rule,
        maxRequests,
        value,
        rangeBegin,
        rangeEnd,
        prefixSharing,
        traits,
        adapterPages);
  }

  public CapacityRules withRange(int begin, int end) {
    return new CapacityRules(
        set, rule, maxRequests, lookahead, begin, end, prefixSharing, traits, adapterPages);
  }

  public CapacityRules withPrefixSharing(PrefixSharing value) {
    return new CapacityRules(
        set, rule, maxRequests, lookahead, rangeBegin, rangeEnd, value, traits, adapterPages);
  }

  public CapacityRules withTraits(Set<CacheTrait> value) {
    return new CapacityRules(
        set,
        rule,
        maxRequests,
        lookahead,
        rangeBegin,
        rangeEnd,
        prefixSharing,
        value,
        adapterPages);
  }

  public CapacityRules withAdapterPages(int value) {
    return new CapacityRules(
        set, rule, maxRequests, lookahead, rangeBegin, rangeEnd, prefixSharing, traits, value);
  }

  static int nativeSet(PolicySet set) {
    return switch (set) {
      case TRTLLM_2026_09 -> 0;
      case BERTH_1 -> 1;
    };
  }

  static int bits(Set<CacheTrait> traits, CacheTrait self, CacheTrait cross) {
    return (traits.contains(self) ? 1 : 0) | (traits.contains(cross) ? 2 : 0);
  }

  NativeRules into(NativeRules rules) {
    return rules.capacity(
        rule.ordinal(),
        maxRequests,
        lookahead.ordinal() + 1,
        rangeBegin,
        rangeEnd,
        prefixSharing.ordinal(),
        bits(traits, CacheTrait.SELF_REUSE, CacheTrait.CROSS_REUSE),
        bits(traits, CacheTrait.SELF_VARIABLE_WINDOW, CacheTrait.CROSS_VARIABLE_WINDOW),
        adapterPages);
  }
}
