// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;

/** Takes logs apart and puts them together again. */
final class LogFiles {
  private LogFiles() {}

  static LogReplay.Result replay(byte[] log) {
    return LogReplay.run(new ByteArrayInputStream(log));
  }

  static RecordReader records(byte[] log) {
    return new RecordReader(new LogInput(new LogReader(new ByteArrayInputStream(log))));
  }

  /** The records without headers and checksums. */
  static byte[] payload(byte[] log) {
    var reader = new LogReader(new ByteArrayInputStream(log));
    var payload = new ByteArrayOutputStream();
    for (byte[] block = reader.next(); block.length > 0; block = reader.next()) {
      payload.writeBytes(block);
    }
    return payload.toByteArray();
  }

  /** A log of these records, with checksums that are right, in blocks of a size. */
  static byte[] sealed(byte[] payload, int blockSize) {
    var log = new ByteArrayOutputStream();
    log.writeBytes(header(LogFormat.VERSION));
    int number = 0;
    for (int at = 0; at < payload.length; at += blockSize) {
      byte[] block = Arrays.copyOfRange(payload, at, Math.min(payload.length, at + blockSize));
      ByteBuffer out =
          ByteBuffer.allocate(LogFormat.BLOCK_HEADER + block.length).order(ByteOrder.LITTLE_ENDIAN);
      out.putInt(4, block.length).putInt(8, number++).put(LogFormat.BLOCK_HEADER, block);
      out.putInt(0, checksum(Arrays.copyOfRange(out.array(), 4, out.capacity())));
      log.writeBytes(out.array());
    }
    return log.toByteArray();
  }

  static byte[] header(int version) {
    ByteBuffer out = ByteBuffer.allocate(LogFormat.FILE_HEADER).order(ByteOrder.LITTLE_ENDIAN);
    out.put(LogFormat.MAGIC).putShort((short) version).putShort((short) 0);
    out.putInt(checksum(Arrays.copyOf(out.array(), 12)));
    return out.array();
  }

  private static int checksum(byte[] bytes) {
    var crc = new CRC32C();
    crc.update(bytes);
    return (int) crc.getValue();
  }

  /** Checksums of all records so far, after every n-th step and at the end. */
  static List<String> digests(byte[] log, int every) {
    var input = new LogInput(new LogReader(new ByteArrayInputStream(log)));
    var records = new RecordReader(input);
    var crc = new CRC32C();
    var digests = new ArrayList<String>();
    int steps = 0;
    input.mark();
    while (!records.ended()) {
      LogRecord record = records.next();
      boolean step = record instanceof LogRecord.Step || record instanceof LogRecord.Failed;
      if (step) {
        crc.update(input.sinceMark());
        input.mark();
        steps++;
        if (steps % every == 0) {
          digests.add("%08x".formatted(crc.getValue()));
        }
      }
    }
    crc.update(input.sinceMark());
    digests.add("%08x".formatted(crc.getValue()));
    return digests;
  }
}
