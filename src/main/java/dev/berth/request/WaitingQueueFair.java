// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;
import java.util.Comparator;
import java.util.PriorityQueue;

/**
 * The tenant that was charged least goes first, with its request of the largest priority, equal
 * ones by turn. Taking a request charges its tenant with the most tokens that it may use, over its
 * weight; putting it back refunds that. What a request leaves unused isn't refunded: its end is
 * known to one rank only, and every rank must order alike.
 *
 * <p>A tenant whose every request is held up by its target rank is lifted to the floor at the end
 * of the pop: it saves up nothing while it can't be served.
 */
final class WaitingQueueFair extends WaitingQueue {
  private final Tenants tenants = new Tenants();
  private final EntryHeaps heaps = new EntryHeaps();

  /** Root of each tenant's waiting requests. */
  private int[] root = new int[INITIAL_CAPACITY];

  /** Tenant of each entry. */
  private int[] tenantOf = new int[INITIAL_CAPACITY];

  /** Blocked entries of the pop under way. */
  private int[] aside = new int[INITIAL_CAPACITY];

  private int asideSize;

  /** Tenants of the pop under way that have nothing left. */
  private int[] emptied = new int[INITIAL_CAPACITY];

  private int emptiedSize;
  private long lastTurn;
  private long firstTurn = -1;

  WaitingQueueFair(int ranks) {
    super(ranks);
    Arrays.fill(root, NONE);
  }

  @Override
  public Policy policy() {
    return Policy.FAIR;
  }

  /** Tenants of whom something is remembered. */
  int tenants() {
    return tenants.size();
  }

  @Override
  void linkLast(int entry) {
    Request request = requestOf(entry);
    int tenant = slot(request);
    heaps.key(entry, request.priority(), lastTurn++);
    link(tenant, entry);
  }

  @Override
  void linkFirst(int entry) {
    Request request = requestOf(entry);
    int tenant = slot(request);
    tenants.refund(tenant, Tenants.charge(request));
    heaps.key(entry, request.priority(), firstTurn--);
    link(tenant, entry);
  }

  private int slot(Request request) {
    int tenant = tenants.slot(request.terms().tenant());
    int capacity = tenants.capacity();
    if (capacity > root.length) {
      int old = root.length;
      root = Arrays.copyOf(root, capacity);
      Arrays.fill(root, old, capacity, NONE);
      emptied = Arrays.copyOf(emptied, capacity);
    }
    return tenant;
  }

  private void link(int tenant, int entry) {
    tenantOf[entry] = tenant;
    root[tenant] = heaps.add(root[tenant], entry);
    if (!tenants.waits(tenant)) {
      tenants.join(tenant);
    }
  }

  @Override
  void unlink(int entry) {
    int tenant = tenantOf[entry];
    root[tenant] = heaps.remove(root[tenant], entry);
    if (root[tenant] == NONE) {
      tenants.pause(tenant);
      tenants.depart(tenant);
      tenants.forget();
    }
  }

  @Override
  int scanFirst() {
    int tenant = tenants.first();
    return tenant == NONE ? NONE : root[tenant];
  }

  @Override
  int scanTake(int entry) {
    tenants.charge(tenantOf[entry], Tenants.charge(requestOf(entry)));
    takeOut(entry);
    return scanFirst();
  }

  @Override
  int scanSkip(int entry) {
    aside[asideSize++] = entry;
    takeOut(entry);
    return scanFirst();
  }

  private void takeOut(int entry) {
    int tenant = tenantOf[entry];
    root[tenant] = heaps.remove(root[tenant], entry);
    if (root[tenant] == NONE) {
      tenants.pause(tenant);
      emptied[emptiedSize++] = tenant;
    }
  }

  @Override
  void scanEnd() {
    while (asideSize > 0) {
      int entry = aside[--asideSize];
      link(tenantOf[entry], entry);
    }
    while (emptiedSize > 0) {
      int tenant = emptied[--emptiedSize];
      if (!tenants.waits(tenant)) {
        tenants.depart(tenant);
      }
    }
    tenants.forget();
  }

  @Override
  int[] entriesInOrder() {
    record Line(int[] entries, int next, long counter, long turn) {}
    var lines =
        new PriorityQueue<Line>(
            Comparator.comparingLong(Line::counter).thenComparingLong(Line::turn));
    long turn = 0;
    for (int tenant = 0; tenant < root.length; tenant++) {
      if (root[tenant] != NONE) {
        lines.add(
            new Line(
                heaps.inOrder(root[tenant]), 0, tenants.counter(tenant), tenants.turn(tenant)));
        turn = Math.max(turn, tenants.turn(tenant) + 1);
      }
    }
    int[] order = new int[size()];
    for (int i = 0; i < order.length; i++) {
      Line line = lines.remove();
      order[i] = line.entries[line.next];
      if (line.next + 1 < line.entries.length) {
        long charged = line.counter + Tenants.charge(requestOf(order[i]));
        lines.add(
            new Line(
                line.entries,
                line.next + 1,
                charged < line.counter ? Long.MAX_VALUE : charged,
                turn++));
      }
    }
    return order;
  }

  @Override
  void grow(int capacity) {
    heaps.grow(capacity);
    tenantOf = Arrays.copyOf(tenantOf, capacity);
    aside = Arrays.copyOf(aside, capacity);
  }
}
