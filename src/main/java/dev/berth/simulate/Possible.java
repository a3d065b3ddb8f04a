// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import java.util.EnumSet;
import java.util.Set;

/**
 * Which cells of the coverage table can be at all: a state needs a role, a loop or pages that run
 * out; so does a fault; and together they may leave nothing.
 */
final class Possible {
  private static final Set<Setting> ROLES =
      EnumSet.of(Setting.AGGREGATED, Setting.CONTEXT_ONLY, Setting.GENERATION_ONLY);

  private Possible() {}

  /**
   * What happens, but too seldom to be asked for. A context worker's request gives way only to one
   * ahead of it that had waited to share a prefix and then lacks pages. In the middle of a prompt a
   * reader is slow only if its request gave way, and a fill has all pages.
   */
  static boolean seldom(Seen state, Fault fault, Setting setting) {
    return state == Seen.GAVE_WAY && setting == Setting.CONTEXT_ONLY
        || state == Seen.CHUNKED_CONTEXT
            && fault == Fault.SLOW_READER
            && setting == Setting.STATE_GATE;
  }

  static boolean cell(Seen state, Fault fault, Setting setting) {
    Set<Setting> roles = EnumSet.copyOf(rolesOf(state));
    roles.retainAll(rolesOf(fault));
    roles.retainAll(rolesOf(setting));
    if (roles.isEmpty()
        || !meets(state, setting)
        || !meets(fault, setting)
        || seldom(state, fault, setting)
        || deadlocks(state, fault, setting)) {
      return false;
    }
    // On a generation worker only who gave way computes a prompt.
    boolean generation = roles.equals(EnumSet.of(Setting.GENERATION_ONLY));
    return !(state == Seen.CHUNKED_CONTEXT && generation) || meets(Seen.GAVE_WAY, setting);
  }

  /** Difference D10: no world has it. */
  private static boolean deadlocks(Seen state, Fault fault, Setting setting) {
    return state == Seen.CHUNKED_CONTEXT
        && fault == Fault.SLOW_READER
        && setting == Setting.TRTLLM_2026_09;
  }

  private static Set<Setting> rolesOf(Seen state) {
    return switch (state) {
      case WAITING, CHUNKED_CONTEXT, RETIRING, ENDING -> ROLES;
      case CONTEXT -> EnumSet.of(Setting.AGGREGATED, Setting.CONTEXT_ONLY);
      case TRANSFER_DUE, IN_TRANSFER, TRANSFER_COMPLETE -> EnumSet.of(Setting.GENERATION_ONLY);
      case GENERATION, GAVE_WAY -> EnumSet.of(Setting.AGGREGATED, Setting.GENERATION_ONLY);
    };
  }

  private static Set<Setting> rolesOf(Fault fault) {
    return switch (fault) {
      case TRANSFER_LATE, TRANSFER_FAILS, TRANSFER_TIMES_OUT, SIGNAL_REPEATED ->
          EnumSet.of(Setting.GENERATION_ONLY);
      case CANCEL,
          EARLY_END,
          RUNNER_ERROR,
          RESULT_LOST,
          SLOW_READER,
          SLOW_RANK,
          DEAD_RANK,
          MESSAGES_LATE,
          MESSAGES_LOST,
          CLOCK_JUMPS,
          OFFERED_TWICE,
          ID_REUSED,
          NEVER_FITS,
          EXPIRED ->
          ROLES;
    };
  }

  private static Set<Setting> rolesOf(Setting setting) {
    if (ROLES.contains(setting)) {
      return EnumSet.of(setting);
    }
    return switch (setting) {
      case STATE_GATE -> EnumSet.of(Setting.GENERATION_ONLY);
      case MAX_REQUESTS -> EnumSet.of(Setting.AGGREGATED, Setting.CONTEXT_ONLY);
      default -> ROLES;
    };
  }

  private static boolean meets(Seen state, Setting setting) {
    return switch (state) {
      case WAITING, CONTEXT, TRANSFER_DUE, IN_TRANSFER, TRANSFER_COMPLETE, GENERATION -> true;
      case CHUNKED_CONTEXT ->
          setting != Setting.WHOLE_CONTEXTS && setting != Setting.TOKENS_UNLIMITED;
      case RETIRING, ENDING -> setting != Setting.NON_OVERLAP;
      case GAVE_WAY ->
          setting != Setting.PAGES_UNLIMITED
              && setting != Setting.NO_EVICT
              && setting != Setting.STATIC_BATCH
              && setting != Setting.MAX_REQUESTS;
    };
  }

  private static boolean meets(Fault fault, Setting setting) {
    return switch (setting) {
      case FCFS, PRIORITY, FAIR -> fault != Fault.EXPIRED;
      default -> true;
    };
  }
}
