// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.log.Difference.Decision;
import dev.berth.request.WaitReason;
import java.util.Locale;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.function.LongFunction;

/** Finds where two states of a group differ first, in the order in which an iteration decides. */
final class Comparer {
  private final GroupState logged;
  private final GroupState came;
  private final long iteration;

  Comparer(GroupState logged, GroupState came, long iteration) {
    this.logged = logged;
    this.came = came;
    this.iteration = iteration;
  }

  Optional<Difference> first() {
    return flag(Decision.IDLE, LogFormat.RAN, "running", "idle")
        .or(() -> flag(Decision.GATE, LogFormat.GATE_OPEN, "an open gate", "a closed gate"))
        .or(() -> flag(Decision.GATE, LogFormat.HELD, "a held forward", "no held forward"))
        .or(() -> flag(Decision.GATE, LogFormat.PROGRESS, "progress", "no progress"))
        .or(this::numbers)
        .or(this::assignments)
        .or(() -> frames(this::batch))
        .or(() -> frames(i -> bit(i, Decision.PADDING, LogFormat.PADDED, "padded", "not padded")))
        .or(() -> frames(this::deferred))
        .or(() -> frames(this::receives))
        .or(() -> frames(i -> bit(i, Decision.VOTE, LogFormat.CAN_QUEUE, "may queue", "a veto")))
        .or(() ->
            frames(
                i -> bit(i, Decision.LAUNCH, LogFormat.FRAME_LAUNCHED, "launched", "not launched")))
        .or(() -> frames(this::ended))
        .or(() -> frames(this::pools))
        .or(this::hash);
  }

  private interface OfFrame {
    Optional<Difference> first(int frame);
  }

  private Optional<Difference> frames(OfFrame compare) {
    for (int i = 0; i < logged.frames.length; i++) {
      Optional<Difference> found = compare.first(i);
      if (found.isPresent()) {
        return found;
      }
    }
    return Optional.empty();
  }

  // ------------------------------------------------------------------------------ the group

  private Optional<Difference> flag(Decision decision, int flag, String set, String clear) {
    return (logged.flags & flag) == (came.flags & flag)
        ? Optional.empty()
        : Optional.of(
            group(
                decision,
                OptionalLong.empty(),
                (logged.flags & flag) != 0 ? set : clear,
                (came.flags & flag) != 0 ? set : clear));
  }

  private Optional<Difference> numbers() {
    return logged.expected == came.expected
            && logged.budget == came.budget
            && logged.charged == came.charged
        ? Optional.empty()
        : Optional.of(group(Decision.BUDGET, OptionalLong.empty(), numbers(logged), numbers(came)));
  }

  private static String numbers(GroupState state) {
    return "%d charged, budget %d, target %d"
        .formatted(state.charged, state.budget, state.expected);
  }

  private Optional<Difference> assignments() {
    return ids(
        logged.assigned,
        came.assigned,
        rank -> "on rank " + rank,
        "not admitted",
        (id, was, is) -> group(Decision.ASSIGNMENT, OptionalLong.of(id), was, is));
  }

  private Optional<Difference> hash() {
    return logged.hash == came.hash
        ? Optional.empty()
        : Optional.of(
            group(
                Decision.HASH,
                OptionalLong.empty(),
                "%016x".formatted(logged.hash),
                "%016x".formatted(came.hash)));
  }

  private Difference group(Decision decision, OptionalLong request, String was, String is) {
    return new Difference(
        iteration, decision, OptionalInt.empty(), OptionalInt.empty(), request, was, is);
  }

  // ------------------------------------------------------------------------------ a rank

  private Optional<Difference> batch(int i) {
    return ids(
        logged.frames[i].batch,
        came.frames[i].batch,
        value ->
            "%s of %d tokens".formatted((value & 1) != 0 ? "context" : "generation", value >> 1),
        "not scheduled",
        (id, was, is) -> frame(i, Decision.BATCH, OptionalLong.of(id), was, is));
  }

  private Optional<Difference> bit(int i, Decision decision, int bit, String set, String clear) {
    int was = logged.frames[i].bits & bit;
    int is = came.frames[i].bits & bit;
    return was == is
        ? Optional.empty()
        : Optional.of(
            frame(
                i, decision, OptionalLong.empty(), was != 0 ? set : clear, is != 0 ? set : clear));
  }

  private Optional<Difference> deferred(int i) {
    for (WaitReason reason : WaitReason.values()) {
      int was = logged.frames[i].deferred[reason.ordinal()];
      int is = came.frames[i].deferred[reason.ordinal()];
      if (was != is) {
        String what = " waiting for " + reason.name().toLowerCase(Locale.ROOT);
        return Optional.of(
            frame(i, Decision.DEFERRAL, OptionalLong.empty(), was + what, is + what));
      }
    }
    return Optional.empty();
  }

  private Optional<Difference> receives(int i) {
    return ids(
        logged.frames[i].receives,
        came.frames[i].receives,
        value -> "asked for",
        "not asked for",
        (id, was, is) -> frame(i, Decision.RECEIVE, OptionalLong.of(id), was, is));
  }

  private Optional<Difference> ended(int i) {
    return ids(
        logged.frames[i].ended,
        came.frames[i].ended,
        value ->
            "%s with %d tokens"
                .formatted(GroupState.endKind(value).name().toLowerCase(Locale.ROOT), value / 3),
        "not ended",
        (id, was, is) -> frame(i, Decision.END, OptionalLong.of(id), was, is));
  }

  private Optional<Difference> pools(int i) {
    String was = pools(logged.frames[i]);
    String is = pools(came.frames[i]);
    return was.equals(is)
        ? Optional.empty()
        : Optional.of(frame(i, Decision.POOLS, OptionalLong.empty(), was, is));
  }

  private static String pools(GroupState.Frame frame) {
    return "%d requests, %d seats, %d leases, %d pages"
        .formatted(frame.resident, frame.seats, frame.leases, frame.pages);
  }

  private Difference frame(int i, Decision decision, OptionalLong request, String was, String is) {
    return new Difference(
        iteration,
        decision,
        OptionalInt.of(i / logged.ranks),
        OptionalInt.of(i % logged.ranks),
        request,
        was,
        is);
  }

  // ------------------------------------------------------------------------------ lists

  private interface Of {
    Difference request(long id, String was, String is);
  }

  /** The first request whose place or value in a list isn't the same. */
  private static Optional<Difference> ids(
      GroupState.Ids logged, GroupState.Ids came, LongFunction<String> value, String no, Of of) {
    if (logged.same(came)) {
      return Optional.empty();
    }
    int at = 0;
    while (at < Math.min(logged.size, came.size)
        && logged.id[at] == came.id[at]
        && logged.value[at] == came.value[at]) {
      at++;
    }
    // Who is on one side only is the cause of every later shift.
    if (at < logged.size && came.find(logged.id[at]) < 0) {
      return Optional.of(of.request(logged.id[at], value.apply(logged.value[at]), no));
    }
    if (at < came.size && logged.find(came.id[at]) < 0) {
      return Optional.of(of.request(came.id[at], no, value.apply(came.value[at])));
    }
    long id = at < logged.size ? logged.id[at] : came.id[at];
    int was = logged.find(id);
    int is = came.find(id);
    String place = was == is ? "" : ", %d. in order";
    return Optional.of(
        of.request(
            id,
            value.apply(logged.value[was]) + place.formatted(was + 1),
            value.apply(came.value[is]) + place.formatted(is + 1)));
  }
}
