// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;
import java.util.List;

/**
 * A closed-loop client: it keeps {@code concurrency} requests in the system until all are sent.
 *
 * @param groups kinds of requests, sent in this order
 * @param concurrency most requests in the system at once
 * @param waves how many become visible at the first gathers; from then on as many as concurrency
 *     allows
 */
public record Load(List<Group> groups, int concurrency, List<Integer> waves) {
  /**
   * Requests alike.
   *
   * @param count how many
   * @param inputTokens prompt length
   * @param outputTokens output limit
   * @param scheduling placement wishes
   * @param priority larger is more urgent
   * @param terms tenant and deadline, which counts from the iteration for which a request is sent
   * @param encoderTokens encoder input, 0 without
   */
  public record Group(
      int count,
      int inputTokens,
      int outputTokens,
      SchedulingParams scheduling,
      double priority,
      ServiceTerms terms,
      int encoderTokens) {
    /** Requests of default priority, of no tenant in particular, without a deadline. */
    public Group(int count, int inputTokens, int outputTokens, SchedulingParams scheduling) {
      this(
          count,
          inputTokens,
          outputTokens,
          scheduling,
          Request.DEFAULT_PRIORITY,
          ServiceTerms.NONE,
          0);
    }

    public Group {
      if (count < 1 || inputTokens < 1 || outputTokens < 1) {
        throw new IllegalArgumentException(
            "count, input and output tokens must be >= 1: "
                + count
                + ", "
                + inputTokens
                + ", "
                + outputTokens);
      }
    }
  }

  public Load {
    groups = List.copyOf(groups);
    waves = List.copyOf(waves);
    if (groups.isEmpty() || concurrency < 1) {
      throw new IllegalArgumentException("a load needs a group and a concurrency >= 1");
    }
    if (groups.stream().mapToLong(Group::count).sum() > Integer.MAX_VALUE) {
      throw new IllegalArgumentException("more requests than an int counts");
    }
  }

  /** All requests. */
  public int requests() {
    return groups.stream().mapToInt(Group::count).sum();
  }

  /** Sends the requests in order. */
  Arrivals arrivals() {
    return new ClosedLoop(this);
  }

  private static final class ClosedLoop extends ClosedArrivals {
    private final Load load;
    private int group;
    private int sentOfGroup;
    private long gather;

    ClosedLoop(Load load) {
      super(load.concurrency, load.requests());
      this.load = load;
    }

    @Override
    public int due(long nextGather, double nowMicros, long ended) {
      gather = nextGather;
      int room = super.due(nextGather, nowMicros, ended);
      return nextGather < load.waves.size()
          ? Math.min(room, load.waves.get((int) nextGather))
          : room;
    }

    @Override
    Request request(int number) {
      Group g = load.groups.get(group);
      sentOfGroup++;
      if (sentOfGroup == g.count) {
        group++;
        sentOfGroup = 0;
      }
      return Request.of(number, g.inputTokens, g.outputTokens)
          .withScheduling(g.scheduling)
          .withPriority(g.priority)
          .withTerms(terms(g.terms))
          .withEncoder(g.encoderTokens)
          .withTag(number);
    }

    private ServiceTerms terms(ServiceTerms ofGroup) {
      return ofGroup.deadline() == ServiceTerms.NO_DEADLINE
          ? ofGroup
          : ofGroup.withDeadline(gather + ofGroup.deadline());
    }

    @Override
    public double nextAtMicros(long gather) {
      // Waves are counted in gathers, so as long as one is to come the fleet has to go on
      // gathering.
      return gather < load.waves.size() && sent() < total()
          ? Double.NEGATIVE_INFINITY
          : super.nextAtMicros(gather);
    }
  }
}
