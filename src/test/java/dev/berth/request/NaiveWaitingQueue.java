// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The waiting queue once more, as spec 01 §3.4, §3.5 and docs/routing.md tell it, in one list that
 * is searched for every request: each policy is an order of requests, looked at anew each time.
 */
final class NaiveWaitingQueue {
  /** A waiting request; those put back have negative turns. */
  private record Waiting(Request request, long turn, long since) {}

  private static final class Account {
    long counter;
    long turn;
  }

  private final QueueRules rules;
  private final List<Waiting> all = new ArrayList<>();
  private final Map<Long, Account> accounts = new HashMap<>();
  private long now;
  private long floor;
  private long lastTurn;
  private long firstTurn = -1;

  NaiveWaitingQueue(QueueRules rules) {
    this.rules = rules;
  }

  void advanceTo(long iteration) {
    now = iteration;
  }

  WaitingQueue.Offer offer(Request request) {
    if (contains(request.id())) {
      return WaitingQueue.Offer.DUPLICATE;
    }
    if (rules.policy() == WaitingQueue.Policy.DEADLINE && request.terms().deadline() < now) {
      return WaitingQueue.Offer.EXPIRED;
    }
    account(request);
    all.add(new Waiting(request, lastTurn++, now));
    return WaitingQueue.Offer.QUEUED;
  }

  boolean cancel(long id) {
    return all.removeIf(waiting -> waiting.request.id() == id);
  }

  boolean contains(long id) {
    return all.stream().anyMatch(waiting -> waiting.request.id() == id);
  }

  int size() {
    return all.size();
  }

  /** In the order of service: everything taken from a copy. */
  List<Request> waiting() {
    NaiveWaitingQueue copy = new NaiveWaitingQueue(rules);
    copy.all.addAll(all);
    accounts.forEach((tenant, account) -> {
      Account same = new Account();
      same.counter = account.counter;
      same.turn = account.turn;
      copy.accounts.put(tenant, same);
    });
    copy.now = now;
    copy.floor = floor;
    copy.lastTurn = lastTurn;
    return copy.pop(Integer.MAX_VALUE, new long[0], 0);
  }

  void putBack(List<Request> batch) {
    for (int i = batch.size() - 1; i >= 0; i--) {
      Request request = batch.get(i);
      Account account = account(request);
      account.counter = Math.max(floor, account.counter - charge(request));
      account.turn = firstTurn;
      boolean open = request.terms().deadline() >= now;
      boolean bound = request.terms().deadline() != ServiceTerms.NO_DEADLINE && open;
      all.add(new Waiting(request, firstTurn--, bound ? now : Long.MIN_VALUE));
    }
  }

  List<Request> pop(int budget, long[] counts, int cap) {
    long[] active = counts.clone();
    List<Request> popped = new ArrayList<>();
    List<Waiting> candidates = new ArrayList<>(all);
    long cost = 0;
    while (cost < budget && !candidates.isEmpty()) {
      Waiting head = candidates.stream().min(order()).orElseThrow();
      Request request = head.request;
      if (cost + 1 + request.children() > budget) {
        break;
      }
      candidates.remove(head);
      int target = request.scheduling().targetRank();
      boolean strict =
          active.length > 0
              && request.scheduling().present()
              && target != SchedulingParams.NO_RANK
              && request.scheduling().relax() != Relax.RELAXED;
      if (!strict || active[target] < cap) {
        if (strict) {
          active[target]++;
        }
        all.remove(head);
        cost += 1 + request.children();
        popped.add(request);
        charge(account(request), request);
      }
    }
    for (Waiting blocked : all) {
      if (candidates.stream().noneMatch(c -> tenant(c) == tenant(blocked))) {
        Account account = account(blocked.request);
        account.counter = Math.max(account.counter, floor);
      }
    }
    return popped;
  }

  private Comparator<Waiting> order() {
    Comparator<Waiting> byTurn = Comparator.comparingLong(Waiting::turn);
    Comparator<Waiting> byPriority = Comparator.comparingDouble(w -> 0.0 - w.request.priority());
    return switch (rules.policy()) {
      case FCFS -> byTurn;
      case PRIORITY -> byPriority.thenComparing(byTurn);
      case FAIR ->
          Comparator.<Waiting>comparingLong(w -> account(w.request).counter)
              .thenComparingLong(w -> account(w.request).turn)
              .thenComparing(byPriority)
              .thenComparing(byTurn);
      case DEADLINE -> Comparator.comparingLong(this::due).thenComparing(byTurn);
    };
  }

  private long due(Waiting waiting) {
    long deadline = waiting.request.terms().deadline();
    if (deadline != ServiceTerms.NO_DEADLINE && deadline >= now) {
      return deadline;
    }
    if (waiting.since == Long.MIN_VALUE) {
      return Long.MIN_VALUE;
    }
    return (deadline == ServiceTerms.NO_DEADLINE ? waiting.since : deadline) + rules.patience();
  }

  private static long tenant(Waiting waiting) {
    return waiting.request.terms().tenant();
  }

  /** The account of a request's tenant, opened at the floor. */
  private Account account(Request request) {
    long tenant = request.terms().tenant();
    Account account = accounts.computeIfAbsent(tenant, t -> new Account());
    boolean waits = all.stream().anyMatch(w -> tenant(w) == tenant);
    if (!waits && account.counter <= floor) {
      account.counter = floor;
      account.turn = lastTurn++;
    }
    return account;
  }

  private void charge(Account account, Request request) {
    floor = Math.max(floor, account.counter);
    account.counter += charge(request);
    account.turn = lastTurn++;
  }

  /** Tokens over weight in 1024ths, rounded up. */
  static long charge(Request request) {
    long tokens = request.promptTokens() + (1L + request.children()) * request.maxNewTokens();
    return Math.ceilDiv(tokens * 1024, request.terms().weight());
  }
}
