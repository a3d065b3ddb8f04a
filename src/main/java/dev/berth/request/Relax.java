// SPDX-License-Identifier: Apache-2.0
package dev.berth.request;

/**
 * May a request with a target rank be placed elsewhere? Unset is a third value with its own rules
 * (spec 01 §3.4, §4.1).
 */
public enum Relax {
  UNSET,
  STRICT,
  RELAXED
}
