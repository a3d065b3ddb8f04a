// SPDX-License-Identifier: Apache-2.0
package dev.berth.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.berth.cli.ProgressLine.Audience;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ProgressLineTest {
  private final StringWriter text = new StringWriter();
  private final AtomicLong clock = new AtomicLong(123);

  private ProgressLine line(Audience audience) {
    return new ProgressLine(new PrintWriter(text), audience, clock::get, () -> false);
  }

  private void pass(long millis) {
    clock.addAndGet(millis * 1_000_000);
  }

  @Test
  void rateAndTimeLeftAreShown() {
    try (ProgressLine line = line(Audience.TERMINAL)) {
      line.begin("gen", 10_000);
      pass(2000);
      line.ended(1000);
      assertThat(text).hasToString("\r\u001b[Kgen: 1,000 of 10,000 requests, 500/s, 0:18 left");
    }
  }

  @Test
  void nothingIsLeftOnTheScreen() {
    try (ProgressLine line = line(Audience.TERMINAL)) {
      line.begin("gen", 10);
      pass(200);
      line.ended(1);
    }
    assertThat(text.toString()).endsWith("\r\u001b[K");
  }

  @Test
  void atMostTenLinesASecondAreWritten() {
    try (ProgressLine line = line(Audience.TERMINAL)) {
      line.begin("gen", 100_000);
      for (int i = 0; i < 10_000; i++) {
        pass(1);
        line.ended(i);
      }
    }
    assertThat(text.toString().split("requests", -1)).hasSizeBetween(95, 101 + 1);
  }

  @Test
  void nothingIsWrittenWhereNobodyLooks() {
    try (ProgressLine line = line(Audience.NOBODY)) {
      line.begin("gen", 10);
      pass(5000);
      line.ended(5);
    }
    assertThat(text.toString()).isEmpty();
  }

  @Test
  void aShortRunWritesNothing() {
    try (ProgressLine line = line(Audience.TERMINAL)) {
      line.begin("gen", 10);
      pass(50);
      line.ended(10);
    }
    assertThat(text.toString()).isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "/dev/pts/3, true",
    "/dev/tty1, true",
    "/dev/console, true",
    "/dev/null, false",
    "pipe:[4711], false",
    "/tmp/log, false",
    "socket:[1], false"
  })
  void onlyATerminalIsOne(String target, boolean terminal) {
    assertThat(StandardError.isTerminal(target)).isEqualTo(terminal);
  }

  @Test
  void aSignalIsSeenByTheRunAndWaitsForTheReport() throws InterruptedException {
    Interrupts interrupts = Interrupts.listen();
    assertThat(interrupts.requested()).isFalse();
    var hook = new Thread(interrupts::onShutdown);
    hook.start();
    while (!interrupts.requested()) {
      Thread.onSpinWait();
    }
    assertThat(hook.isAlive()).isTrue();
    interrupts.close();
    hook.join();
    assertThat(interrupts.requested()).isTrue();
  }
}
