// SPDX-License-Identifier: Apache-2.0
/** What every package of Berth shares. */
package dev.berth;
