// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.request.Request;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/**
 * All that a world is a function of. Its events are its arrivals, then its happenings, numbered
 * from 0; without some of them it is a smaller world with the same chance elsewhere.
 *
 * @param seed what it was drawn from
 * @param broken the rule that it breaks
 * @param config of the engines
 * @param admissions whether ranks of a stage share one
 * @param arrivals in order of time
 * @param kept which arrivals come
 * @param happenings what else happens, in order of time
 * @param numbers of the happenings
 */
record WorldPlan(
    long seed,
    BrokenRule broken,
    EngineConfig config,
    Admissions admissions,
    List<Arrival> arrivals,
    BitSet kept,
    List<Happening> happenings,
    List<Integer> numbers) {

  /** Who decides admissions: all alike, so one may stand for all ranks of a process. */
  enum Admissions {
    ONE_A_STAGE,
    ONE_A_RANK
  }

  /** Nodes: every rank of every stage. */
  int nodes() {
    return config.ranks() * config.stages();
  }

  /** Requests that come. */
  int requests() {
    return kept.cardinality();
  }

  /**
   * The same world with some of its events only. What happens to a request that doesn't come
   * doesn't happen.
   *
   * @param events numbers in the world as it was drawn
   */
  WorldPlan only(BitSet events) {
    var arriving = new BitSet();
    for (int i = kept.nextSetBit(0); i >= 0; i = kept.nextSetBit(i + 1)) {
      arriving.set(i, events.get(i));
    }
    var rest = new ArrayList<Happening>();
    var restNumbers = new ArrayList<Integer>();
    for (int i = 0; i < happenings.size(); i++) {
      Happening happening = happenings.get(i);
      if (events.get(numbers.get(i))
          && (!happening.ofRequest() || arriving.get(happening.subject()))) {
        rest.add(happening);
        restNumbers.add(numbers.get(i));
      }
    }
    return new WorldPlan(
        seed,
        broken,
        config,
        admissions,
        arrivals,
        arriving,
        List.copyOf(rest),
        List.copyOf(restNumbers));
  }

  /** The numbers of the events that it has, as in the world that it was drawn as. */
  BitSet eventNumbers() {
    var all = new BitSet();
    all.or(kept);
    numbers.forEach(all::set);
    return all;
  }

  /** Its configuration in a line. */
  String describe() {
    return "%s worker, %d ranks, %d stages, %s; %s, %s, %s, %s; %s; %s; %s gate, target %d; %s"
        .formatted(
            config.role(),
            config.ranks(),
            config.stages(),
            config.plan().describe(),
            config.policies(),
            config.capacity(),
            config.chunkedContext(),
            config.kv() instanceof KvSetup.Paged paged
                ? "%d pages of a cache, %s, %s, parts %s"
                    .formatted(
                        config.pages(), paged.paused(), paged.sharing(), paged.partialReuse())
                : config.pages() + " pages",
            config.router(),
            config.queue(),
            config.gate().kind(),
            config.gate().target(),
            admissions);
  }

  /** A line for each of its events. */
  List<String> describeEvents() {
    var lines = new ArrayList<String>();
    for (int i = kept.nextSetBit(0); i >= 0; i = kept.nextSetBit(i + 1)) {
      Request request = arrivals.get(i).request();
      lines.add(
          "%d: request %d at %d µs: prompt %d, output %d%s"
              .formatted(
                  i,
                  i,
                  arrivals.get(i).at(),
                  request.promptTokens(),
                  request.maxNewTokens(),
                  request.children() == 0 ? "" : ", children " + request.children()));
    }
    for (int i = 0; i < happenings.size(); i++) {
      lines.add(numbers.get(i) + ": " + happenings.get(i));
    }
    return lines;
  }
}
