// SPDX-License-Identifier: Apache-2.0
package dev.berth.replay;

import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
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
   */
  public record Group(int count, int inputTokens, int outputTokens, SchedulingParams scheduling) {
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

    ClosedLoop(Load load) {
      super(load.concurrency, load.requests());
      this.load = load;
    }

    @Override
    public int due(long gather, double nowMicros, long ended) {
      int room = super.due(gather, nowMicros, ended);
      return gather < load.waves.size() ? Math.min(room, load.waves.get((int) gather)) : room;
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
          .withTag(number);
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
