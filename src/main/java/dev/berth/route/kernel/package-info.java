// SPDX-License-Identifier: Apache-2.0
/**
 * The loops over ranks that routers run for every request: scalar code, which says what they give,
 * and the same on vectors, which is found at run time.
 */
package dev.berth.route.kernel;
