// SPDX-License-Identifier: Apache-2.0
package dev.berth.capacity;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.RequestState;

/**
 * Pages that a request needs of one pool, for a cache manager that keeps whole pages of {@code
 * tokensPerPage} tokens. Pure arithmetic (spec 02 §4.1, §4.2); all results are before the reuse
 * credit, in pages; more than an int counts is {@link Integer#MAX_VALUE}, which no pool has.
 *
 * <p>Whoever has such a manager calls {@link #describe} for every row that changed. {@code
 * dev.berth.kv.KvCache} counts its own.
 *
 * @param cache whose keys and values the pool holds
 * @param tokensPerPage tokens of a page, 1 or more
 * @param window attention window in tokens, 1 or more; the whole sequence if it is longer than any
 * @param chunkTokens tokens beyond the window that a chunk in work may take, 0 or more
 * @param sinkTokens tokens at the front that are always kept, 0 or more; they fill whole pages, so
 *     that what follows begins on a page of its own
 */
public record PageNeeds(
    Pool.Cache cache, int tokensPerPage, int window, int chunkTokens, int sinkTokens) {
  /** A window that nothing is longer than. */
  public static final int MOST = Integer.MAX_VALUE;

  public PageNeeds {
    if (tokensPerPage < 1 || window < 1 || chunkTokens < 0 || sinkTokens < 0) {
      throw new BerthException(
          Code.ARGUMENT,
          "pages of %d tokens, a window of %d, chunks of %d and %d sinks are no pool"
              .formatted(tokensPerPage, window, chunkTokens, sinkTokens));
    }
  }

  /** A self cache without chunks beyond its window and without sinks. */
  public static PageNeeds self(int tokensPerPage, int window) {
    return new PageNeeds(Pool.Cache.SELF, tokensPerPage, window, 0, 0);
  }

  /** A cross cache: it holds the encoder's output and never grows. */
  public static PageNeeds cross(int tokensPerPage) {
    return new PageNeeds(Pool.Cache.CROSS, tokensPerPage, MOST, 0, 0);
  }

  /** The same with so many sinks. */
  public PageNeeds withSinks(int tokens) {
    return new PageNeeds(cache, tokensPerPage, window, chunkTokens, tokens);
  }

  /** The same with chunks of so many tokens. */
  public PageNeeds withChunks(int tokens) {
    return new PageNeeds(cache, tokensPerPage, window, tokens, sinkTokens);
  }

  /** Tokens that pad the sinks to whole pages. */
  public int sinkBubble() {
    return (tokensPerPage - sinkTokens % tokensPerPage) % tokensPerPage;
  }

  /** Pages that so many tokens fill, the sinks' bubble included. */
  public int pages(long tokens) {
    return saturated((tokens + sinkBubble() + tokensPerPage - 1) / tokensPerPage);
  }

  /**
   * Pages of the self cache up to the last token (§4.1). Draft tokens are no part of it.
   *
   * @param prompt prompt tokens
   * @param maxNew output limit in tokens
   * @param tokens prompt and output so far
   * @param beam beam width: pages behind the prompt's whole ones are held by each beam
   * @param heldPerBeam pages that each beam holds, 0 without a cache
   */
  public int toCompletion(int prompt, int maxNew, int tokens, int beam, int heldPerBeam) {
    long end = (long) prompt + maxNew;
    long most = (long) window + chunkTokens;
    long ofPrompt = (Math.min(prompt, most) + sinkBubble()) / tokensPerPage;
    long all = pages(Math.min(end, most));
    // A sliding window takes a new page before it drops the oldest.
    long wholeEnd = Math.ceilDiv(end, (long) tokensPerPage);
    boolean slides =
        end > window && wholeEnd > Math.ceilDiv(tokens, tokensPerPage) && wholeEnd > all;
    long extra = slides ? 1 : 0;
    long needed =
        heldPerBeam < ofPrompt
            ? ofPrompt - heldPerBeam + (all - ofPrompt + extra) * beam
            : (all - heldPerBeam + extra) * beam;
    return saturated(Math.max(0, needed));
  }

  /**
   * Pages for the prompt of a request that begins, or whose KV is to be received (§4.2).
   *
   * @param prompt prompt tokens; in the cross cache the encoder's output tokens
   * @param drafts draft tokens of the step
   * @param beam beam width: a page that isn't full is held by each beam
   */
  public int toBegin(int prompt, int drafts, int beam) {
    long length = Math.min((long) prompt + drafts, (long) window + chunkTokens) + sinkBubble();
    return saturated(length / tokensPerPage + (length % tokensPerPage > 0 ? beam : 0));
  }

  /**
   * Pages for the next steps of a generation (§4.2).
   *
   * @param prompt prompt tokens
   * @param maxNew output limit in tokens: no step goes beyond it
   * @param cached tokens in its cache
   * @param drafts draft tokens of a step
   * @param beam beam width
   * @param steps 1, or 2 where the step after the next is launched before its pages are settled
   */
  public int toGoOn(int prompt, int maxNew, int cached, int drafts, int beam, int steps) {
    long left = maxNew - ((long) cached - prompt);
    long next = cached + Math.max(0, Math.min(steps * (drafts + 1L), left));
    if (next > (long) window + chunkTokens) {
      return 0; // the window slides over pages that it has
    }
    return saturated((long) (pages(next) - pages(cached)) * beam);
  }

  private static int saturated(long pages) {
    return (int) Math.min(pages, Integer.MAX_VALUE);
  }

  /**
   * Writes the needs of a row into a table, from what the row says of its request.
   *
   * @param pool the pool, whose window and cache are this rule's
   * @param heldPerBeam pages that each beam of the row holds in that pool, 0 without a cache
   * @param cached tokens in its cache, 0 without one
   * @param credit pages that it would share with others (§4.4); 0 but for first chunks
   * @throws BerthException ARGUMENT if the pool isn't this rule's
   */
  public void describe(
      SchedulingTable table, int row, int pool, int heldPerBeam, int cached, int credit) {
    Pool its = table.shape().pools().get(pool);
    if (its.cache() != cache) {
      throw new BerthException(
          Code.ARGUMENT, "pool %d is of the %s cache, not %s".formatted(pool, its.cache(), cache));
    }
    RequestState state = table.state(row);
    boolean context =
        state == RequestState.CONTEXT_INIT || state == RequestState.CONTEXT_INIT_AND_TRANSFER;
    boolean begins =
        state == RequestState.GENERATION_INIT
            || (context && table.cursor(row) == table.cachedTokens(row));
    if (cache == Pool.Cache.CROSS) {
      // Nothing is held yet at the first chunk only, and nothing is added later.
      int remaining = context && table.cursor(row) == 0 ? pages(table.encoderTokens(row)) : 0;
      int step = begins ? toBegin(table.encoderTokens(row), 0, 1) : 0;
      table.demand(row, pool, remaining, step, step, 0);
      return;
    }
    int prompt = table.promptTokens(row);
    int maxNew = table.maxNewTokens(row);
    int drafts = table.draftTokens(row);
    int beam = table.beamWidth(row);
    int tokens = prompt + table.generatedTokens(row);
    int remaining = toCompletion(prompt, maxNew, tokens, beam, heldPerBeam);
    int one = 0;
    int two = 0;
    if (begins) {
      one = toBegin(prompt, drafts, beam);
      two = one;
    } else if (!context) {
      one = toGoOn(prompt, maxNew, cached, drafts, beam, 1);
      two = toGoOn(prompt, maxNew, cached, drafts, beam, 2);
    }
    table.demand(row, pool, remaining, one, two, credit);
  }
}
