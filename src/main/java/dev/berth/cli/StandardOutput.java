// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Optional;

/**
 * Standard output that remembers what kept it from being written: print streams swallow it, and a
 * report that a full disk cut short must not look like a good one.
 */
final class StandardOutput extends FilterOutputStream {
  private Optional<IOException> failure = Optional.empty();

  StandardOutput() {
    this(new FileOutputStream(FileDescriptor.out));
  }

  StandardOutput(OutputStream to) {
    super(to);
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    try {
      out.write(bytes, offset, length);
    } catch (IOException e) {
      failure = Optional.of(e);
      throw e;
    }
  }

  @Override
  public void write(int b) throws IOException {
    write(new byte[] {(byte) b}, 0, 1);
  }

  /** What went wrong. A reader that has seen enough and closed its pipe is nothing wrong. */
  Optional<String> failure() {
    return failure
        .map(e -> String.valueOf(e.getMessage()))
        .filter(message -> !message.startsWith("Broken pipe"));
  }
}
