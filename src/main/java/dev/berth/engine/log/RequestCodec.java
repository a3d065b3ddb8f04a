// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;
import dev.berth.engine.log.LogException.Kind;
import dev.berth.request.Relax;
import dev.berth.request.Request;
import dev.berth.request.RouteKey;
import dev.berth.request.SchedulingParams;
import dev.berth.request.ServiceTerms;

/** A request as numbers; the id as its distance from that of the request before. */
final class RequestCodec {
  private static final int PRIORITY = 1;
  private static final int SCHEDULING = 1 << 1;
  private static final int CHILDREN = 1 << 2;
  private static final int TAG = 1 << 3;
  private static final int TERMS = 1 << 4;
  private static final int ROUTE = 1 << 5;

  /** Flags of a request; the others are for who uses this. */
  static final int FLAGS = (1 << 6) - 1;

  /** A flag of a request too, behind those of who uses this. */
  static final int ENCODER = 1 << 7;

  private static final Relax[] RELAX = Relax.values();

  private long lastId;
  private long lastTag;

  static int flags(Request request, long nextTag) {
    return (request.priority() != Request.DEFAULT_PRIORITY ? PRIORITY : 0)
        | (request.scheduling().present() ? SCHEDULING : 0)
        | (request.children() != 0 ? CHILDREN : 0)
        | (request.tag() != nextTag ? TAG : 0)
        | (request.terms().equals(ServiceTerms.NONE) ? 0 : TERMS)
        | (request.route().equals(RouteKey.NONE) ? 0 : ROUTE)
        | (request.encoderTokens() != 0 ? ENCODER : 0);
  }

  /** Writes flags, with those of the caller among them, and the request. */
  void write(Request request, int callersFlags, LogBuffer out) {
    int flags = flags(request, lastTag + 1);
    out.number(flags | callersFlags);
    out.signed(request.id() - lastId);
    out.number(request.promptTokens());
    out.number(request.maxNewTokens());
    if ((flags & PRIORITY) != 0) {
      out.fixed(Double.doubleToRawLongBits(request.priority()));
    }
    if ((flags & SCHEDULING) != 0) {
      out.number(request.scheduling().targetRank() + 1L);
      out.number(request.scheduling().relax().ordinal());
    }
    if ((flags & CHILDREN) != 0) {
      out.number(request.children());
    }
    if ((flags & TAG) != 0) {
      out.signed(request.tag());
    }
    if ((flags & TERMS) != 0) {
      out.signed(request.terms().tenant());
      out.number(request.terms().weight());
      out.number(request.terms().deadline());
    }
    if ((flags & ROUTE) != 0) {
      write(request.route(), out);
    }
    if ((flags & ENCODER) != 0) {
      out.number(request.encoderTokens());
    }
    lastId = request.id();
    lastTag = request.tag();
  }

  /** Reads a request behind its flags. */
  Request read(int flags, LogInput in) {
    long begin = in.offset();
    long id = lastId + in.signed();
    int prompt = in.count("the prompt");
    int output = in.count("the output limit");
    double priority =
        (flags & PRIORITY) == 0 ? Request.DEFAULT_PRIORITY : Double.longBitsToDouble(in.fixed());
    SchedulingParams scheduling = SchedulingParams.NONE;
    if ((flags & SCHEDULING) != 0) {
      int target = (int) in.number("the target rank", 0, Integer.MAX_VALUE) - 1;
      Relax relax = RELAX[in.index("relax", RELAX.length)];
      scheduling =
          target < 0 ? SchedulingParams.untargeted(relax) : SchedulingParams.target(target, relax);
    }
    int children = (flags & CHILDREN) == 0 ? 0 : in.count("the children");
    long tag = (flags & TAG) == 0 ? lastTag + 1 : in.signed();
    long tenant = (flags & TERMS) == 0 ? 0 : in.signed();
    int weight = (flags & TERMS) == 0 ? 1 : in.count("the weight");
    long deadline =
        (flags & TERMS) == 0
            ? ServiceTerms.NO_DEADLINE
            : in.number("the deadline", 0, Long.MAX_VALUE);
    RouteKey route = (flags & ROUTE) == 0 ? RouteKey.NONE : route(in);
    int encoder = (flags & ENCODER) == 0 ? 0 : in.count("the encoder input");
    lastId = id;
    lastTag = tag;
    try {
      var terms = new ServiceTerms(tenant, weight, deadline);
      return new Request(id, prompt, output, priority, scheduling, children, tag, terms, route)
          .withEncoder(encoder);
    } catch (BerthException e) {
      throw new LogException(Kind.MALFORMED, begin, String.valueOf(e.getMessage()), e);
    }
  }

  private static void write(RouteKey route, LogBuffer out) {
    out.text(route.conversation());
    out.text(route.subagent());
    out.number(route.headLength());
    for (int i = 0; i < route.headLength(); i++) {
      out.number(route.headToken(i));
    }
  }

  private static RouteKey route(LogInput in) {
    RouteKey key =
        RouteKey.conversation(in.text("the conversation")).withSubagent(in.text("the sub-agent"));
    int[] head = new int[in.index("the prompt's beginning", RouteKey.HEAD_TOKENS + 1)];
    for (int i = 0; i < head.length; i++) {
      head[i] = in.count("a token");
    }
    return key.withPrompt(head);
  }
}
