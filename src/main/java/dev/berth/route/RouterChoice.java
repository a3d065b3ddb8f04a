// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/** Which router an engine uses: every engine of a fleet makes its own from the same choice. */
public sealed interface RouterChoice {
  /** The published default: balance of prompt tokens, placement by the admission view. */
  RouterChoice DEFAULT = new Default(PlacementView.ADMISSION);

  /** {@link DefaultRouter}. */
  record Default(PlacementView view) implements RouterChoice {
    @Override
    public AdpRouter router(RankCap cap) {
      return new DefaultRouter(cap, view, TieRule.LOWEST_RANK);
    }

    @Override
    public String toString() {
      return DefaultRouter.NAME + suffix(view);
    }
  }

  /** {@link KvAwareRouter}. */
  record KvAware(KvAwareRouter.Options options) implements RouterChoice {
    @Override
    public AdpRouter router(RankCap cap) {
      return new KvAwareRouter(options.with(cap));
    }

    @Override
    public PlacementView view() {
      return options.view();
    }

    @Override
    public TokenLoad load() {
      return TokenLoad.UNCACHED;
    }

    @Override
    public String toString() {
      return KvAwareRouter.NAME + suffix(view());
    }
  }

  /** {@link ConversationRouter}. */
  record Conversation(ConversationRouter.Options options) implements RouterChoice {
    @Override
    public AdpRouter router(RankCap cap) {
      return new ConversationRouter(options.with(cap));
    }

    @Override
    public PlacementView view() {
      return options.view();
    }

    @Override
    public String toString() {
      return ConversationRouter.NAME + suffix(view());
    }
  }

  /** A new router. */
  AdpRouter router(RankCap cap);

  /** Which requests placement weighs. */
  PlacementView view();

  /** What a resident request adds to its rank's token load. */
  default TokenLoad load() {
    return TokenLoad.PROMPT;
  }

  private static String suffix(PlacementView view) {
    return view == PlacementView.RESIDENT ? " router, resident view" : " router";
  }
}
