// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

import dev.berth.request.Request;
import dev.berth.request.RequestBatch;
import dev.berth.route.MatchSource;
import dev.berth.route.PrefixMatches;

/** What caches hold of a prompt, as if gathered: chance, the same on every rank. */
final class Matches implements MatchSource {
  private final PrefixMatches matches = new PrefixMatches();

  /** Tokens of a request's prompt that a rank is said to hold; never the whole. */
  static int tokens(Request request, int rank) {
    long noise = Noise.of(request.id(), rank);
    return (noise & 3) == 0 ? Noise.below(noise, request.promptTokens()) : 0;
  }

  @Override
  public PrefixMatches of(RequestBatch batch, int ranks) {
    matches.begin(batch.size(), ranks);
    for (int item = 0; item < batch.size(); item++) {
      for (int rank = 0; rank < ranks; rank++) {
        matches.set(item, rank, tokens(batch.get(item), rank));
      }
    }
    return matches;
  }
}
