// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.TreeSet;
import java.util.function.IntConsumer;
import java.util.function.Predicate;
import java.util.stream.IntStream;

/** The routers once more, as spec 01 §4 tells them, in plain collections. */
final class NaiveRouters {
  private NaiveRouters() {}

  /** One rank while a call is routed. */
  private static final class Rank {
    final int number;
    final boolean closed;
    final int extra;
    final List<Long> given = new ArrayList<>();
    long requests;
    long load;

    Rank(RandomCall call, int number, PlacementView view) {
      this.number = number;
      closed = call.closed().contains(number);
      requests = call.active()[number];
      load = call.tokens()[number];
      extra = view == PlacementView.RESIDENT ? call.retiring()[number] : 0;
      load += extra * (requests > 0 ? load / requests : meanElsewhere(call));
    }

    private static long meanElsewhere(RandomCall call) {
      long requests = IntStream.of(call.active()).asLongStream().sum();
      if (requests > 0) {
        double tokens = 0;
        for (long its : call.tokens()) {
          tokens += its;
        }
        return (long) (tokens / requests);
      }
      return (long) call.requests().stream().mapToInt(Request::promptTokens).average().orElse(0);
    }

    void give(Request request, long tokens) {
      given.add(request.id());
      requests++;
      load += tokens;
    }
  }

  private static List<Rank> ranks(RandomCall call, PlacementView view) {
    return IntStream.range(0, call.active().length)
        .mapToObj(number -> new Rank(call, number, view))
        .toList();
  }

  private static long target(List<Rank> ranks, int remaining, double multiplier, long limit) {
    List<Rank> open = ranks.stream().filter(r -> !r.closed).toList();
    if (open.isEmpty()) {
      return 0;
    }
    long sum = open.stream().mapToLong(r -> r.requests).sum() + remaining;
    long fair = (sum + open.size() - 1) / open.size();
    long highest = open.stream().mapToLong(r -> r.requests).max().orElse(0);
    return (long) Math.min(Math.max(Math.ceil(multiplier * fair), highest), limit);
  }

  private static long limit(RandomCall call, RankCap cap) {
    return cap == RankCap.HARD ? call.cap() : Integer.MAX_VALUE;
  }

  private static List<Request> sorted(List<Request> requests, Predicate<Request> later) {
    var sorted = new ArrayList<>(requests);
    sorted.sort(Comparator.comparing(later::test));
    return sorted;
  }

  private static boolean mayGoElsewhere(Request request) {
    return request.scheduling().targetRank() == SchedulingParams.NO_RANK
        || request.scheduling().relax() != Relax.STRICT;
  }

  private static Routed result(
      RandomCall call, List<Rank> ranks, List<Request> left, long expected) {
    return new Routed(
        ranks.stream().map(r -> r.given).toList(),
        call.requests().stream().filter(left::contains).map(Request::id).toList(),
        (int) expected);
  }

  // ---------------------------------------------------------------------------------- default

  /** §4.2. */
  static Routed byDefault(RandomCall call, RankCap cap, PlacementView view) {
    return byDefault(call, cap, view, 0, rank -> {});
  }

  /** Equals are resolved round and round, from behind the rank that was balanced last. */
  static final class Rotating {
    private int first;

    Routed route(RandomCall call) {
      return byDefault(
          call,
          RankCap.HARD,
          PlacementView.ADMISSION,
          first,
          rank -> first = (rank + 1) % call.active().length);
    }
  }

  private static Routed byDefault(
      RandomCall call, RankCap cap, PlacementView view, int first, IntConsumer balanced) {
    List<Rank> ranks = ranks(call, view);
    long limit = limit(call, cap);
    var rest = new ArrayList<Request>();
    for (Request request : sorted(call.requests(), NaiveRouters::mayGoElsewhere)) {
      int target = request.scheduling().targetRank();
      if (target >= 0 && !ranks.get(target).closed && ranks.get(target).requests < limit) {
        ranks.get(target).give(request, 0);
      } else {
        rest.add(request);
      }
    }
    long expected = target(ranks, rest.size(), 1, limit);
    rest.sort(Comparator.comparingInt(Request::promptTokens).reversed());
    var left = new ArrayList<Request>();
    for (Request request : rest) {
      ranks.stream()
          .filter(r -> !r.closed && r.requests < expected)
          .min(
              Comparator.<Rank>comparingLong(r -> r.load)
                  .thenComparingLong(r -> r.requests + r.extra)
                  .thenComparingInt(r -> Math.floorMod(r.number - first, ranks.size())))
          .ifPresentOrElse(
              r -> {
                r.give(request, request.promptTokens());
                balanced.accept(r.number);
              },
              () -> left.add(request));
    }
    return result(call, ranks, left, expected);
  }

  // ---------------------------------------------------------------------------------- KV-aware

  /** §4.3, with its memory: the ranks that wait for a first request. */
  static final class KvAware {
    private final KvAwareRouter.Options options;
    final TreeSet<Integer> waiting = new TreeSet<>();
    private int known;

    KvAware(KvAwareRouter.Options options) {
      this.options = options;
    }

    Routed route(RandomCall call) {
      List<Rank> ranks = ranks(call, options.view());
      if (options.coldStart() == KvAwareRouter.ColdStart.ONE_EACH) {
        for (; known < ranks.size(); known++) {
          waiting.add(known);
        }
      }
      long limit = limit(call, options.rankCap());
      var rest = new ArrayList<Request>();
      for (Request request : sorted(call.requests(), NaiveRouters::mayGoElsewhere)) {
        int target = request.scheduling().targetRank();
        if (target < 0) {
          target =
              waiting.stream()
                  .filter(w -> w < ranks.size() && !ranks.get(w).closed)
                  .findFirst()
                  .orElse(-1);
        }
        if (target >= 0 && !ranks.get(target).closed && ranks.get(target).requests < limit) {
          ranks.get(target).give(request, missing(call, request, target));
          waiting.remove(target);
        } else {
          rest.add(request);
        }
      }
      rest.sort(
          Comparator.<Request, List<Integer>>comparing(r -> head(r.route()), NaiveRouters::compare)
              .thenComparing(Comparator.comparingInt(Request::promptTokens).reversed()));
      long expected = target(ranks, rest.size(), options.fairShareMultiplier(), limit);
      var left = new ArrayList<Request>();
      for (Request request : rest) {
        List<Rank> eligible =
            ranks.stream().filter(r -> !r.closed && r.requests < expected).toList();
        if (eligible.isEmpty()) {
          left.add(request);
        } else {
          Rank winner = winner(call, request, eligible);
          winner.give(request, missing(call, request, winner.number));
        }
      }
      return result(call, ranks, left, expected);
    }

    private Rank winner(RandomCall call, Request request, List<Rank> eligible) {
      int size = request.promptTokens();
      double total = Math.max(Math.max(eligible.stream().mapToLong(r -> r.load).sum(), size), 1);
      int best = eligible.stream().mapToInt(r -> call.match(request, r.number)).max().orElse(0);
      boolean counts = (double) best / Math.max(size, 1) > options.matchRateThreshold();
      int[] order = NaiveTwister.shuffled(request.id(), eligible.size());
      return IntStream.of(order)
          .mapToObj(eligible::get)
          .min(
              Comparator.<Rank>comparingDouble(r ->
                      size
                          - (counts ? call.match(request, r.number) : 0)
                          + options.loadWeight() * (r.load / total * size))
                  .thenComparingLong(r -> r.load))
          .orElseThrow();
    }

    private static int missing(RandomCall call, Request request, int rank) {
      return Math.max(request.promptTokens() - call.match(request, rank), 0);
    }
  }

  private static List<Integer> head(RouteKey key) {
    return IntStream.range(0, key.headLength()).map(key::headToken).boxed().toList();
  }

  private static int compare(List<Integer> one, List<Integer> other) {
    for (int i = 0; i < Math.min(one.size(), other.size()); i++) {
      int order = one.get(i).compareTo(other.get(i));
      if (order != 0) {
        return order;
      }
    }
    return Integer.compare(one.size(), other.size());
  }

  // ------------------------------------------------------------------------------ conversation

  /** §4.4, with its memory. */
  static final class Conversation {
    private final ConversationRouter.Options options;
    final LinkedHashMap<String, Integer> homes = new LinkedHashMap<>();
    int cursor;

    Conversation(ConversationRouter.Options options) {
      this.options = options;
    }

    Routed route(RandomCall call) {
      List<Rank> ranks = ranks(call, options.view());
      cursor = cursor < ranks.size() ? cursor : 0;
      long limit = limit(call, options.rankCap());
      var rest = new ArrayList<Request>();
      for (Request r : sorted(call.requests(), q -> q.scheduling().relax() != Relax.STRICT)) {
        int target = r.scheduling().targetRank();
        String key = r.route().affinity();
        if (target >= 0
            && !ranks.get(target).closed
            && ranks.get(target).requests < limit
            && !bound(key, ranks)) {
          ranks.get(target).give(r, r.promptTokens());
          bind(key, target);
        } else {
          rest.add(r);
        }
      }
      long expected = target(ranks, rest.size(), Math.max(1, options.fairShareMultiplier()), limit);
      var left = new ArrayList<Request>();
      for (Request r : rest) {
        String key = r.route().affinity();
        boolean bound = bound(key, ranks);
        if (bound && ranks.get(homes.getOrDefault(key, -1)).requests < limit) {
          ranks.get(homes.getOrDefault(key, -1)).give(r, r.promptTokens());
          bind(key, homes.getOrDefault(key, -1));
          continue;
        }
        int chosen = choose(ranks, expected);
        if (chosen < 0) {
          left.add(r);
          continue;
        }
        ranks.get(chosen).give(r, r.promptTokens());
        if (!bound) {
          bind(key, chosen);
        }
      }
      long highest =
          ranks.stream().filter(r -> !r.closed).mapToLong(r -> r.requests).max().orElse(0);
      return result(call, ranks, left, Math.max(expected, highest));
    }

    private boolean bound(String key, List<Rank> ranks) {
      int home = homes.getOrDefault(key, -1);
      return home >= 0 && home < ranks.size() && !ranks.get(home).closed;
    }

    void bind(String key, int rank) {
      if (!key.isEmpty()) {
        homes.remove(key);
        if (homes.size() == options.maxSessions()) {
          homes.remove(homes.keySet().iterator().next());
        }
        homes.put(key, rank);
      }
    }

    private int choose(List<Rank> ranks, long expected) {
      List<Rank> below = ranks.stream().filter(r -> !r.closed && r.requests < expected).toList();
      int size = ranks.size();
      Comparator<Rank> order =
          switch (options.placement()) {
            case ROUND_ROBIN ->
                Comparator.comparingInt(r -> Math.floorMod(r.number - cursor, size));
            case LEAST_QUEUED -> Comparator.comparingLong(r -> r.requests + r.extra);
            case LEAST_TOKENS ->
                Comparator.<Rank>comparingLong(r -> r.load)
                    .thenComparingLong(r -> r.requests + r.extra)
                    .thenComparingInt(r -> Math.floorMod(r.number - cursor, size));
          };
      int chosen = below.stream().min(order).map(r -> r.number).orElse(-1);
      if (chosen >= 0 && options.placement() != NewConversation.LEAST_QUEUED) {
        cursor = (chosen + 1) % size;
      }
      return chosen;
    }
  }
}
