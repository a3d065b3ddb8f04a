// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

/**
 * A pool of KV pages: one attention window of one cache. Pools of the self cache come before those of the cross cache.
 *
 * @param window attention window in tokens, 1 or more
 * @param cache which cache
 * @param totalPages pages of the pool, or {@link #UNKNOWN}: then nobody can say that a request will never fit
 * @param pageIds held pages are named by ids 0 .. {@code pageIds - 1}; 0: they are only counted
 */
public record Pool(int window, Cache cache, long totalPages, int pageIds) {
  /** The number of pages isn't known. */
  public static final long UNKNOWN = -1;

  /** Whose keys and values a pool holds. */
  public enum Cache {
    SELF,
    /** The encoder's output. */
    CROSS
  }

  public Pool {
    if (window < 1) {
      throw new IllegalArgumentException("a pool's window must be >= 1 token, got " + window);
    }
    if (totalPages < UNKNOWN) {
      throw new IllegalArgumentException("a pool's pages must be >= 0 or UNKNOWN, got " + totalPages);
    }
    if (pageIds < 0) {
      throw new IllegalArgumentException("pageIds must be >= 0, got " + pageIds);
    }
  }

  /** A pool of the self cache whose pages are only counted. */
  public static Pool self(int window, long totalPages) {
    return new Pool(window, Cache.SELF, totalPages, 0);
  }

  /** A pool of the cross cache whose pages are only counted. */
  public static Pool cross(int window, long totalPages) {
    return new Pool(window, Cache.CROSS, totalPages, 0);
  }

  /** The same pool with pages named by ids, so that a shared page counts as free only when its last holder goes. */
  public Pool withPageIds(int ids) {
    return new Pool(window, cache, totalPages, ids);
  }
}
