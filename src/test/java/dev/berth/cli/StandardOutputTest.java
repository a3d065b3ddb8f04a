// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import org.junit.jupiter.api.Test;

class StandardOutputTest {
  private static StandardOutput failing(String message) {
    return new StandardOutput(
        new OutputStream() {
          @Override
          public void write(int b) throws IOException {
            throw new IOException(message);
          }
        });
  }

  private static StandardOutput printTo(StandardOutput output) {
    new PrintStream(output, true).println("a report");
    return output;
  }

  @Test
  void aFullDiskIsRemembered() {
    assertThat(printTo(failing("No space left on device")).failure())
        .contains("No space left on device");
  }

  @Test
  void aReaderThatHasSeenEnoughIsNothingWrong() {
    assertThat(printTo(failing("Broken pipe")).failure()).isEmpty();
  }

  @Test
  void whatCanBeWrittenIsWritten() {
    var bytes = new ByteArrayOutputStream();
    assertThat(printTo(new StandardOutput(bytes)).failure()).isEmpty();
    assertThat(bytes).hasToString("a report" + System.lineSeparator());
  }
}
