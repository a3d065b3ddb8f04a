// SPDX-License-Identifier: Apache-2.0
package dev.berth.simulate;

/** Hears what happens in a world, to tell it later. */
@FunctionalInterface
interface History {
  /** Hears nothing. */
  History NONE =
      new History() {
        @Override
        public void add(long micros, String node, String what) {}

        @Override
        public boolean listens() {
          return false;
        }
      };

  /**
   * Something happened.
   *
   * @param node to whom
   */
  void add(long micros, String node, String what);

  /** Is it worth putting in words what happens? */
  default boolean listens() {
    return true;
  }
}
