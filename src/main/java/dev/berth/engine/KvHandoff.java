// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.transfer.LeaseId;
import dev.berth.transfer.PageList;
import dev.berth.transfer.PeerTicket;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/**
 * What a generation worker needs to go on with a request where a context worker ended: its first
 * token and where the KV of its prompt can be fetched. Goes as bytes from one to the other, by
 * whatever carries requests.
 *
 * @param promptTokens tokens whose KV it is, 1 or more
 * @param firstToken the output token that the context worker made; -1: not known
 * @param stages what each pipeline stage has, the first one first
 */
public record KvHandoff(int promptTokens, int firstToken, List<Stage> stages) {
  /** Bytes of the longest one. */
  public static final int MOST_BYTES = 1 << 24;

  private static final int MAGIC = 0x424b5631; // "BKV1"
  private static final int HEAD = 4 * Integer.BYTES;
  private static final int MOST_TICKET = 1 << 12;

  /**
   * The pages of one stage.
   *
   * @param offers by pool of the cache
   * @param blocks by life cycle of the cache
   */
  public record Stage(List<Offer> offers, List<Blocks> blocks) {
    public Stage {
      offers = List.copyOf(offers);
      blocks = List.copyOf(blocks);
    }
  }

  /** Where the pages of a pool can be fetched. */
  public record Offer(PeerTicket ticket, LeaseId lease) {}

  /**
   * The blocks of a life cycle that there are pages of, ascending.
   *
   * @param numbers which blocks, {@code int[n]}
   * @param pages where they lie with their owner
   */
  public record Blocks(List<Integer> numbers, PageList pages) {
    public Blocks {
      numbers = List.copyOf(numbers);
      if (numbers.size() != pages.size()) {
        throw new BerthException(
            Code.ARGUMENT, "%d pages of %d blocks".formatted(pages.size(), numbers.size()));
      }
      for (int i = 0; i < numbers.size(); i++) {
        if (numbers.get(i) < (i == 0 ? 0 : numbers.get(i - 1) + 1)) {
          throw new BerthException(Code.ARGUMENT, "blocks " + numbers + " don't ascend from 0");
        }
      }
    }
  }

  public KvHandoff {
    if (promptTokens < 1 || firstToken < -1) {
      throw new BerthException(
          Code.ARGUMENT,
          "a prompt of %d tokens with the first token %d".formatted(promptTokens, firstToken));
    }
    stages = List.copyOf(stages);
  }

  /** To be sent. */
  public byte[] bytes() {
    int size = HEAD + 2 * Integer.BYTES;
    for (Stage stage : stages) {
      size += 2 * Integer.BYTES;
      for (Offer offer : stage.offers()) {
        size += Integer.BYTES + Long.BYTES + offer.ticket().bytes().length;
      }
      for (Blocks blocks : stage.blocks()) {
        size += Integer.BYTES + 2 * Integer.BYTES * blocks.numbers().size();
      }
    }
    ByteBuffer out =
        ByteBuffer.allocate(size)
            .putInt(MAGIC)
            .putInt(promptTokens)
            .putInt(firstToken)
            .putInt(stages.size());
    for (Stage stage : stages) {
      out.putInt(stage.offers().size()).putInt(stage.blocks().size());
      for (Offer offer : stage.offers()) {
        byte[] ticket = offer.ticket().bytes();
        out.putLong(offer.lease().number()).putInt(ticket.length).put(ticket);
      }
      for (Blocks blocks : stage.blocks()) {
        out.putInt(blocks.numbers().size());
        for (int i = 0; i < blocks.numbers().size(); i++) {
          out.putInt(blocks.numbers().get(i)).putInt(blocks.pages().get(i));
        }
      }
    }
    out.putInt(0); // room for more
    return out.putInt(checksum(out.array(), out.position())).array();
  }

  /**
   * One that arrived. It may be anything.
   *
   * @throws BerthException ARGUMENT for bytes that aren't one, saying why
   */
  public static KvHandoff of(byte[] bytes) {
    if (bytes.length < HEAD + 2 * Integer.BYTES || bytes.length > MOST_BYTES) {
      throw malformed("%d bytes".formatted(bytes.length));
    }
    ByteBuffer in = ByteBuffer.wrap(bytes, 0, bytes.length - Integer.BYTES);
    if (in.getInt() != MAGIC) {
      throw malformed("it begins with something else");
    }
    if (ByteBuffer.wrap(bytes).getInt(bytes.length - Integer.BYTES)
        != checksum(bytes, bytes.length - Integer.BYTES)) {
      throw malformed("its checksum is wrong");
    }
    try {
      int prompt = in.getInt();
      int first = in.getInt();
      int count = count(in, 2 * Integer.BYTES);
      var stages = new ArrayList<Stage>();
      for (int stage = 0; stage < count; stage++) {
        stages.add(stage(in));
      }
      if (in.getInt() != 0 || in.hasRemaining()) {
        throw malformed("there is more behind it");
      }
      return new KvHandoff(prompt, first, stages);
    } catch (BufferUnderflowException e) {
      throw malformed("it is cut off");
    }
  }

  private static Stage stage(ByteBuffer in) {
    int pools = count(in, Long.BYTES + Integer.BYTES);
    int lifeCycles = count(in, Integer.BYTES);
    var offers = new ArrayList<Offer>();
    for (int pool = 0; pool < pools; pool++) {
      var lease = new LeaseId(in.getLong());
      int length = count(in, 1);
      if (length > MOST_TICKET) {
        throw malformed("a ticket of %d bytes".formatted(length));
      }
      byte[] ticket = new byte[length];
      in.get(ticket);
      offers.add(new Offer(PeerTicket.of(ticket), lease));
    }
    var all = new ArrayList<Blocks>();
    for (int lifeCycle = 0; lifeCycle < lifeCycles; lifeCycle++) {
      int n = count(in, 2 * Integer.BYTES);
      var numbers = new ArrayList<Integer>();
      int[] pages = new int[n];
      for (int i = 0; i < n; i++) {
        numbers.add(in.getInt());
        pages[i] = in.getInt();
      }
      all.add(new Blocks(numbers, PageList.of(pages)));
    }
    return new Stage(offers, all);
  }

  /** A number of things, each of so many bytes at least. */
  private static int count(ByteBuffer in, int bytes) {
    int n = in.getInt();
    if (n < 0 || n > in.remaining() / bytes) {
      throw malformed("%d things in %d bytes".formatted(n, in.remaining()));
    }
    return n;
  }

  private static BerthException malformed(String why) {
    return new BerthException(Code.ARGUMENT, "not a KV handoff: " + why);
  }

  private static int checksum(byte[] bytes, int length) {
    var crc = new CRC32C();
    crc.update(bytes, 0, length);
    return (int) crc.getValue();
  }
}
