// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

import java.util.Arrays;

/** A binary heap over tenants: the least charged first, equal ones by turn. */
final class TenantHeap {
  private final Tenants tenants;
  private int[] heap = new int[WaitingQueue.INITIAL_CAPACITY];

  /** Where in the heap a tenant stands, {@link WaitingQueue#NONE} if it isn't in it. */
  private int[] place = new int[WaitingQueue.INITIAL_CAPACITY];

  private int size;

  TenantHeap(Tenants tenants) {
    this.tenants = tenants;
    Arrays.fill(place, WaitingQueue.NONE);
  }

  /** The first, {@link WaitingQueue#NONE} if there is none. */
  int top() {
    return size == 0 ? WaitingQueue.NONE : heap[0];
  }

  boolean contains(int tenant) {
    return place[tenant] != WaitingQueue.NONE;
  }

  void add(int tenant) {
    siftUp(size++, tenant);
  }

  void remove(int tenant) {
    int at = place[tenant];
    place[tenant] = WaitingQueue.NONE;
    int moved = heap[--size];
    if (moved != tenant) {
      siftUp(at, moved);
      siftDown(place[moved], moved);
    }
  }

  /** What a tenant is ordered by has changed. */
  void moved(int tenant) {
    siftUp(place[tenant], tenant);
    siftDown(place[tenant], tenant);
  }

  void grow(int capacity) {
    int old = place.length;
    heap = Arrays.copyOf(heap, capacity);
    place = Arrays.copyOf(place, capacity);
    Arrays.fill(place, old, capacity, WaitingQueue.NONE);
  }

  private void siftUp(int from, int tenant) {
    int at = from;
    while (at > 0) {
      int parent = (at - 1) >>> 1;
      if (!tenants.before(tenant, heap[parent])) {
        break;
      }
      put(at, heap[parent]);
      at = parent;
    }
    put(at, tenant);
  }

  private void siftDown(int from, int tenant) {
    int at = from;
    int child;
    while ((child = 2 * at + 1) < size) {
      if (child + 1 < size && tenants.before(heap[child + 1], heap[child])) {
        child++;
      }
      if (!tenants.before(heap[child], tenant)) {
        break;
      }
      put(at, heap[child]);
      at = child;
    }
    put(at, tenant);
  }

  private void put(int at, int tenant) {
    heap[at] = tenant;
    place[tenant] = at;
  }
}
