// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.KvAwareRouter.ColdStart;
import dev.berth.route.KvAwareRouter.InTransfer;
import dev.berth.route.NewConversation;
import dev.berth.route.RouterChoice;
import org.junit.jupiter.api.Test;

/** Which router a worker's settings choose: the first that matches (spec 01 §4). */
class AdpSettingsTest {
  private static AdpSettings settings(boolean kvAware, boolean conversations) {
    return new AdpSettings(
        false,
        50,
        10,
        kvAware,
        0.5,
        0.25,
        3,
        true,
        true,
        conversations,
        7,
        NewConversation.LEAST_TOKENS);
  }

  @Test
  void conversationsBeatCaches() {
    assertThat(settings(true, true).router(true))
        .isEqualTo(
            new RouterChoice.Conversation(
                ConversationRouter.Options.DEFAULTS
                    .withMaxSessions(7)
                    .withMultiplier(3)
                    .with(NewConversation.LEAST_TOKENS)));
    assertThat(settings(false, true).router(false)).isInstanceOf(RouterChoice.Conversation.class);
  }

  @Test
  void cachesCountWhereBlocksAreReused() {
    assertThat(settings(true, false).router(true))
        .isEqualTo(
            new RouterChoice.KvAware(
                KvAwareRouter.Options.DEFAULTS
                    .withWeights(0.5, 0.25, 3)
                    .with(ColdStart.ONE_EACH)
                    .with(InTransfer.CHARGED)));
    assertThat(settings(true, false).router(false)).isEqualTo(RouterChoice.DEFAULT);
  }

  @Test
  void elseTheDefaultRouterDecides() {
    assertThat(AdpSettings.DEFAULT.router(true)).isEqualTo(RouterChoice.DEFAULT);
  }

  @Test
  void theEnginesDefaultsAreTheRouters() {
    assertThat(
            new KvAwareRouter.Options(
                AdpSettings.DEFAULT.loadBalanceWeight(),
                AdpSettings.DEFAULT.matchRateThreshold(),
                AdpSettings.DEFAULT.fairShareMultiplier(),
                ColdStart.SCORED,
                InTransfer.LEFT_OUT,
                KvAwareRouter.Options.DEFAULTS.view(),
                KvAwareRouter.Options.DEFAULTS.rankCap()))
        .isEqualTo(KvAwareRouter.Options.DEFAULTS);
    assertThat(AdpSettings.DEFAULT.maxSessions())
        .isEqualTo(ConversationRouter.Options.DEFAULTS.maxSessions());
  }
}
