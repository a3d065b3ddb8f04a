// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.List;

/**
 * Requests written as the tables write them: {@code "none, params, strict 0, relaxed 1, unset 2"};
 * ids in order from 0.
 */
public final class Wishes {
  private Wishes() {}

  /** One request of equal length for each wish. */
  public static List<Request> requests(int tokens, String wishes) {
    var requests = new ArrayList<Request>();
    if (!wishes.isBlank()) {
      for (String wish : wishes.split(",")) {
        requests.add(
            Request.of(requests.size(), tokens, 1).withScheduling(scheduling(wish.strip())));
      }
    }
    return requests;
  }

  /** That many requests of equal length without wishes. */
  public static List<Request> plain(int count, int tokens) {
    var requests = new ArrayList<Request>();
    for (int id = 0; id < count; id++) {
      requests.add(Request.of(id, tokens, 1));
    }
    return requests;
  }

  private static SchedulingParams scheduling(String wish) {
    String[] words = wish.split(" ");
    return switch (words[0]) {
      case "none" -> SchedulingParams.NONE;
      case "params" -> SchedulingParams.untargeted(Relax.UNSET);
      case "strict" -> SchedulingParams.target(Integer.parseInt(words[1]), Relax.STRICT);
      case "relaxed" -> SchedulingParams.target(Integer.parseInt(words[1]), Relax.RELAXED);
      case "unset" -> SchedulingParams.target(Integer.parseInt(words[1]), Relax.UNSET);
      default -> throw new IllegalArgumentException(wish);
    };
  }
}
