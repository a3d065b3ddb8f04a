// SPDX-License-Identifier: Apache-2.0
/** The index types: five different ideas that are all a number, and never one {@code int}. */
package dev.berth.id;
