// SPDX-License-Identifier: Apache-2.0
package dev.berth.config;

import java.util.Optional;

/**
 * Something a plan says about a configuration.
 *
 * @param severity how bad it is
 * @param rule stable identifier in kebab-case
 * @param worker the worker it is about; empty if it is about the deployment or the file
 * @param message one sentence with the numbers on both sides
 * @param key where to change it; empty if no single key is to blame
 */
public record Finding(
    Severity severity, String rule, String worker, String message, Optional<WorkerConfig.Key> key) {
  /** How bad a finding is, worst first. */
  public enum Severity {
    /** The configuration cannot work. */
    REFUSED,
    /** It works, but probably not as meant. */
    WARNING,
    /** Good to know. */
    NOTE
  }

  static Finding refused(String rule, String worker, String message) {
    return new Finding(Severity.REFUSED, rule, worker, message, Optional.empty());
  }

  static Finding warning(String rule, String worker, String message) {
    return new Finding(Severity.WARNING, rule, worker, message, Optional.empty());
  }

  static Finding note(String rule, String worker, String message) {
    return new Finding(Severity.NOTE, rule, worker, message, Optional.empty());
  }

  /** The same, with the key to change. */
  Finding at(WorkerConfig.Key place) {
    return new Finding(severity, rule, worker, message, Optional.of(place));
  }

  @Override
  public String toString() {
    return worker.isEmpty() ? message : worker + ": " + message;
  }
}
