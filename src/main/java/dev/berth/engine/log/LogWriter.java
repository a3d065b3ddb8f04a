// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.engine.FillWarmUp;
import dev.berth.engine.GroupTap;
import dev.berth.engine.LockstepGroup;
import dev.berth.engine.Outcome;
import dev.berth.engine.RankEngine;
import dev.berth.request.Request;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.WritableByteChannel;
import java.util.Optional;
import java.util.zip.CRC32C;

/**
 * Writes the decision log of one group: {@code group.listen(writer)}, then run, then {@link
 * #close}. What is written lies in off-heap memory until a block of it is full, or {@link #flush}
 * is called; then it goes to the channel with its checksum. A step that throws flushes by itself.
 *
 * <p>A channel that fails never stops the engines: the log ends there, {@link #failure} says so and
 * {@link #close} throws it.
 */
public final class LogWriter implements GroupTap, AutoCloseable {
  /** Bytes of a block unless one record fills it alone. */
  private static final int CAPACITY = 1 << 18;

  /** An iteration that finds less room than this hands the block over when it has ended. */
  private static final int ROOM = 1 << 14;

  private final WritableByteChannel channel;
  private final LogBuffer buffer;
  private final Recorder recorder;
  private final CRC32C crc = new CRC32C();
  private Optional<IOException> failure = Optional.empty();
  private int blocks;
  private long bytes;
  private boolean closed;

  /**
   * A log that begins at once.
   *
   * @param channel receives the bytes; {@link #close} closes it
   * @param label what ran, for people; a scenario and its arm
   */
  public LogWriter(WritableByteChannel channel, String label) {
    this.channel = channel;
    this.buffer = new LogBuffer(CAPACITY, this::block);
    this.recorder = new Recorder(buffer, label);
    send(header());
  }

  private ByteBuffer header() {
    ByteBuffer header = ByteBuffer.allocate(LogFormat.FILE_HEADER).order(ByteOrder.LITTLE_ENDIAN);
    header.put(LogFormat.MAGIC).putShort((short) LogFormat.VERSION).putShort((short) 0);
    header.putInt(LogFormat.checksum(header.array(), 0, header.position()));
    return header.flip();
  }

  private void block(ByteBuffer memory, int end) {
    memory.putInt(4, end - LogFormat.BLOCK_HEADER);
    memory.putInt(8, blocks++);
    memory.limit(end).position(4);
    crc.reset();
    crc.update(memory);
    memory.putInt(0, (int) crc.getValue());
    memory.position(0);
    send(memory);
    memory.clear();
  }

  private void send(ByteBuffer data) {
    if (failure.isPresent()) {
      return;
    }
    try {
      while (data.hasRemaining()) {
        bytes += channel.write(data);
      }
    } catch (IOException e) {
      failure = Optional.of(e);
    }
  }

  @Override
  public void begin(LockstepGroup group) {
    recorder.begin(group);
  }

  @Override
  public void offered(Request request, Outcome outcome) {
    recorder.offered(request, outcome);
  }

  @Override
  public void cancelled(long id, boolean waited) {
    recorder.cancelled(id, waited);
  }

  @Override
  public void changed(RankEngine engine, Change change, int row, long requestId) {
    recorder.changed(engine, change, row, requestId);
  }

  @Override
  public void stopped(RankEngine engine, int position) {
    recorder.stopped(engine, position);
  }

  @Override
  public void lost(RankEngine engine, int position) {
    recorder.lost(engine, position);
  }

  @Override
  public void faulted(int rank, Fault kind) {
    recorder.faulted(rank, kind);
  }

  @Override
  public void held(RankEngine engine, Hold change, int row, long requestId) {
    recorder.held(engine, change, row, requestId);
  }

  @Override
  public void withdrawn(int rank, long id) {
    recorder.withdrawn(rank, id);
  }

  @Override
  public void limited(int admissionCap) {
    recorder.limited(admissionCap);
  }

  @Override
  public void warmUp(FillWarmUp phase) {
    recorder.warmUp(phase);
  }

  @Override
  public void placement(int rank, Placement change) {
    recorder.placement(rank, change);
  }

  @Override
  public void stepping() {
    recorder.stepping();
  }

  @Override
  public void calling() {
    recorder.calling();
  }

  @Override
  public void stepped(boolean ran) {
    recorder.stepped(ran);
    if (buffer.left() < ROOM) {
      buffer.flush();
    }
  }

  @Override
  public void failed(RuntimeException cause) {
    recorder.failed(cause);
    buffer.flush();
  }

  /** Hands what was written so far to the channel. */
  public void flush() {
    buffer.flush();
  }

  /** Why the log ends early, if it does. */
  public Optional<IOException> failure() {
    return failure;
  }

  /** Bytes that the channel took. */
  public long bytes() {
    return bytes;
  }

  /**
   * Ends the log and closes the channel; idempotent.
   *
   * @throws UncheckedIOException if the channel failed, now or before
   */
  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    recorder.end();
    try {
      channel.close();
    } catch (IOException e) {
      failure = failure.or(() -> Optional.of(e));
    }
    failure.ifPresent(e -> {
      throw new UncheckedIOException(e);
    });
  }
}
