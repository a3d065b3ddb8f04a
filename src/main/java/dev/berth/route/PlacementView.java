// SPDX-License-Identifier: Apache-2.0
package dev.berth.route;

/**
 * Which of a rank's requests placement weighs. Admission is another matter: budget, E and K always
 * go by the routable ones. Source: spec 01 §4.5.
 */
public enum PlacementView {
  /** The routable requests, as admission counts them: the published rule. */
  ADMISSION,
  /**
   * Retiring requests too, until their teardown: they add to the requests that a rank is compared
   * by, and each adds the mean load of the rank's routable requests to its tokens (of all ranks'
   * where it has none, of the new requests' prompts where no rank has any).
   */
  RESIDENT
}
