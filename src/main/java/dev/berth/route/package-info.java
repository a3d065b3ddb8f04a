// SPDX-License-Identifier: Apache-2.0
/**
 * What ranks tell each other about their load, and the routers that place new requests by it. Pure
 * functions of gathered values: every rank runs them on the same input and gets the same bytes.
 */
package dev.berth.route;
