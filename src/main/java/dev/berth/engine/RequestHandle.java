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
  private static final VarHandle RESULT;
  private static final VarHandle FUTURE;
  private static final VarHandle STREAMS;
  private static final VarHandle CANCELLED;

  static {
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      RESULT = lookup.findVarHandle(RequestHandle.class, "result", RequestResult.class);
      FUTURE = lookup.findVarHandle(RequestHandle.class, "future", CompletableFuture.class);
      STREAMS = lookup.findVarHandle(RequestHandle.class, "streams", TokenStream[].class);
      CANCELLED = lookup.findVarHandle(RequestHandle.class, "cancelled", boolean.class);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  private final Engine engine;
  private final Request request;
  private final SubmitOptions options;
  private Submission submission = Submission.ACCEPTED;
  private volatile @Nullable RequestResult result;
  private volatile @Nullable CompletableFuture<RequestResult> future;
  private volatile TokenStream @Nullable [] streams;
  private volatile boolean cancelled;

  /** The next one in the engine's list of cancellations. */
  @Nullable RequestHandle nextCancelled;

  /** What the engine keeps of it from its first look at it to its end. */
  @Nullable LiveRequest live;

  RequestHandle(Engine engine, Request request, SubmitOptions options) {
    this.engine = engine;
    this.request = request;
    this.options = options;
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
    return options;
  }

  /** What {@link Engine#submit} said. Anything but Accepted is the request's end too. */
  public Submission submission() {
    return submission;
  }

  /** The end of the request. Completed on the engine's executor for callbacks, or by the caller. */
  public CompletionStage<RequestResult> result() {
    CompletableFuture<RequestResult> mine = future;
    if (mine == null) {
      var made = new CompletableFuture<RequestResult>();
      mine = FUTURE.compareAndSet(this, null, made) ? made : future;
    }
    RequestResult known = result;
    if (known != null && mine != null) {
      mine.complete(known);
    }
    return Objects.requireNonNull(mine).minimalCompletionStage();
  }

  /** The end of the request, once it has come. */
  public Optional<RequestResult> ended() {
    return Optional.ofNullable(result);
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
    return streams()[child];
  }

  /** Ends the request, wherever it is. Once more does nothing. */
  public void cancel() {
    if (result == null && CANCELLED.compareAndSet(this, false, true)) {
      engine.cancel(this);
    }
  }

  // ------------------------------------------------------------------------------ the engine

  Engine engine() {
    return engine;
  }

  boolean isCancelled() {
    return cancelled;
  }

  TokenStream[] streams() {
    TokenStream[] mine = streams;
    if (mine == null) {
      var made = new TokenStream[1 + request.children()];
      for (int child = 0; child < made.length; child++) {
        made[child] = new TokenStream(this, child);
      }
      STREAMS.compareAndSet(this, null, made);
      mine = Objects.requireNonNull(streams);
    }
    return mine;
  }

  /** The engine never took it. */
  RequestHandle refuse(Submission why) {
    submission = why;
    end(new Ending.Refused(why), List.of());
    return this;
  }

  /** Ends the request, if it hasn't ended. The first one to say so is right. */
  boolean end(Ending ending, List<Integer> outputTokens) {
    var last = new RequestResult(request.id(), request.tag(), ending, outputTokens);
    if (!RESULT.compareAndSet(this, null, last)) {
      return false;
    }
    for (TokenStream stream : streams()) {
      if (stream.ending().isEmpty()) {
        stream.end(ending);
      }
    }
    CompletableFuture<RequestResult> waiting = future;
    if (waiting != null) {
      engine.call(() -> waiting.complete(last));
    }
    return true;
  }
}
