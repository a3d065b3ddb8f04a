// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.request.Request;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;

/**
 * A request that was given to an {@link Engine}: its tokens, its end, and the way to cancel it.
 * Each comes to exactly one end, whatever becomes of the engine. Thread-safe, but for the one
 * reader that each {@link TokenStream} has.
 */
public final class RequestHandle {
  private static final VarHandle SIDE;
  private static final VarHandle RESULT;
  private static final VarHandle FUTURE;
  private static final VarHandle CANCELLED;
  private static final VarHandle HANDOFF;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      SIDE = lookup.findVarHandle(RequestHandle.class, "side", Side.class);
      RESULT = lookup.findVarHandle(Side.class, "result", RequestResult.class);
      FUTURE = lookup.findVarHandle(Side.class, "future", CompletableFuture.class);
      CANCELLED = lookup.findVarHandle(Side.class, "cancelled", boolean.class);
      HANDOFF = lookup.findVarHandle(Side.class, "handoff", CompletableFuture.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** Where a request came in, with what options, and where its KV is if that is known. */
  record Origin(Engine engine, SubmitOptions options, Optional<KvHandoff> handoff) {}

  /**
   * All that a submitter doesn't need, made by whoever needs it first: a handle is made for every
   * request, in the time of its submitter.
   */
  private static final class Side {
    private final TokenStream[] streams;
    private volatile @Nullable RequestResult result;
    private volatile @Nullable CompletableFuture<RequestResult> future;
    private volatile boolean cancelled;
    private volatile @Nullable CompletableFuture<Optional<KvHandoff>> handoff;
    private volatile @Nullable KvHandoff offered;

    /** The next one in the engine's list of cancellations. */
    private @Nullable RequestHandle nextCancelled;

    /** What the engine keeps of it from its first look at it to its end. */
    private @Nullable LiveRequest live;

    Side(RequestHandle handle) {
      streams = new TokenStream[1 + handle.request.children()];
      for (int child = 0; child < streams.length; child++) {
        streams[child] = new TokenStream(handle, child);
      }
    }
  }

  private final Origin origin;
  private final Request request;
  private volatile @Nullable Side side;

  RequestHandle(Origin origin, Request request) {
    this.origin = origin;
    this.request = request;
  }

  private Side side() {
    Side mine = side;
    if (mine == null) {
      SIDE.compareAndSet(this, null, new Side(this));
      mine = Objects.requireNonNull(side);
    }
    return mine;
  }

  /** What was submitted. */
  public Request request() {
    return request;
  }

  /** The request's id. */
  public long id() {
    return request.id();
  }

  /** What it was submitted with. */
  public SubmitOptions options() {
    return origin.options();
  }

  /**
   * What the engine says to it: at first what {@link Engine#submit} said. Anything but Accepted is
   * the request's end too.
   */
  public Submission submission() {
    Side mine = side;
    RequestResult last = mine == null ? null : mine.result;
    return last != null && last.ending() instanceof Ending.Refused(Submission why)
        ? why
        : Submission.ACCEPTED;
  }

  /** The end of the request. Completed on the engine's executor for callbacks, or by the caller. */
  public CompletionStage<RequestResult> result() {
    Side mine = side();
    CompletableFuture<RequestResult> stage = mine.future;
    if (stage == null) {
      FUTURE.compareAndSet(mine, null, new CompletableFuture<RequestResult>());
      stage = Objects.requireNonNull(mine.future);
    }
    RequestResult known = mine.result;
    if (known != null) {
      stage.complete(known);
    }
    return stage.minimalCompletionStage();
  }

  /**
   * In a context worker with a transport: where the KV of the request can be fetched, as soon as it
   * can. Its lease has an end, so a generation worker should have it soon; the request itself ends
   * when the KV was taken. Empty if there is none to fetch: the request ended before, its first
   * token was its last, or this isn't such a worker.
   */
  public CompletionStage<Optional<KvHandoff>> handoff() {
    Side mine = side();
    CompletableFuture<Optional<KvHandoff>> stage = mine.handoff;
    if (stage == null) {
      HANDOFF.compareAndSet(mine, null, new CompletableFuture<Optional<KvHandoff>>());
      stage = Objects.requireNonNull(mine.handoff);
    }
    KvHandoff known = mine.offered;
    if (known != null || mine.result != null) {
      stage.complete(Optional.ofNullable(known));
    }
    return stage.minimalCompletionStage();
  }

  /**
   * In a generation worker with a transport: says where the KV of a request can be fetched that was
   * submitted before that was known. The request waits for it on its rank, with its pages, for as
   * long as a transfer may last. Once more changes nothing.
   */
  public void receive(KvHandoff kv) {
    origin.engine().receive(this, kv);
  }

  /** The end of the request, once it has come. */
  public Optional<RequestResult> ended() {
    Side mine = side;
    return mine == null ? Optional.empty() : Optional.ofNullable(mine.result);
  }

  /** The output of the first sequence. */
  public TokenStream tokens() {
    return tokens(0);
  }

  /**
   * The output of a sequence.
   *
   * @param child 0: the first, up to the request's children
   * @throws BerthException ARGUMENT if there is no such sequence
   */
  public TokenStream tokens(int child) {
    if (child < 0 || child > request.children()) {
      throw new BerthException(
          Code.ARGUMENT, "sequence %d of %d".formatted(child, 1L + request.children()));
    }
    return side().streams[child];
  }

  /** Ends the request, wherever it is. Once more does nothing. */
  public void cancel() {
    Side mine = side();
    if (mine.result == null && CANCELLED.compareAndSet(mine, false, true)) {
      origin.engine().cancel(this);
    }
  }

  // ------------------------------------------------------------------------------ the engine

  Engine engine() {
    return origin.engine();
  }

  /** Where its KV is, as its submitter said. */
  Optional<KvHandoff> submittedHandoff() {
    return origin.handoff();
  }

  void offered(KvHandoff kv) {
    Side mine = side();
    mine.offered = kv;
    tellHandoff(mine, Optional.of(kv));
  }

  private void tellHandoff(Side mine, Optional<KvHandoff> kv) {
    CompletableFuture<Optional<KvHandoff>> waiting = mine.handoff;
    if (waiting != null) {
      origin.engine().call(() -> waiting.complete(kv));
    }
  }

  boolean isCancelled() {
    Side mine = side;
    return mine != null && mine.cancelled;
  }

  @Nullable RequestHandle nextCancelled() {
    return side().nextCancelled;
  }

  void nextCancelled(@Nullable RequestHandle next) {
    side().nextCancelled = next;
  }

  @Nullable LiveRequest live() {
    return side().live;
  }

  void live(@Nullable LiveRequest request) {
    side().live = request;
  }

  TokenStream[] streams() {
    return side().streams;
  }

  /** The engine doesn't take it. */
  RequestHandle refuse(Submission why) {
    end(new Ending.Refused(why), List.of());
    return this;
  }

  /** Ends the request, if it hasn't ended. The first one to say so is right. */
  boolean end(Ending ending, List<Integer> outputTokens) {
    Side mine = side();
    var last = new RequestResult(request.id(), request.tag(), ending, outputTokens);
    if (!RESULT.compareAndSet(mine, null, last)) {
      return false;
    }
    for (TokenStream stream : mine.streams) {
      if (stream.ending().isEmpty()) {
        stream.end(ending);
      }
    }
    tellHandoff(mine, Optional.ofNullable(mine.offered));
    CompletableFuture<RequestResult> waiting = mine.future;
    if (waiting != null) {
      origin.engine().call(() -> waiting.complete(last));
    }
    return true;
  }
}
