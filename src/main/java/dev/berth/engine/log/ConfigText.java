// SPDX-License-Identifier: Apache-2.0
package dev.berth.engine.log;

import dev.berth.BerthException;
import dev.berth.BerthException.Code;
import dev.berth.engine.BalanceGate;
import dev.berth.engine.BatchWait;
import dev.berth.engine.ContextHold;
import dev.berth.engine.EngineConfig;
import dev.berth.engine.KvSetup;
import dev.berth.engine.WorkerRole;
import dev.berth.plan.PlanOutcome;
import dev.berth.plan.Reason;
import dev.berth.plan.SeatPlan;
import dev.berth.plan.SeatPolicy;
import dev.berth.plan.WhatIf;
import dev.berth.plan.WorkerShape;
import dev.berth.route.ConversationRouter;
import dev.berth.route.KvAwareRouter;
import dev.berth.route.PlacementView;
import dev.berth.route.RouterChoice;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * An {@link EngineConfig} as names and values, one for each component of the records that it is
 * made of, so that a setting that is added later is written without being mentioned here. A setting
 * that isn't named has its default: that is what it was when there was no such setting.
 */
final class ConfigText {
  private static final String PLAN = "plan";
  private static final String KIND = ".is";
  private static final String OWN_POLICY = "ownPolicy";

  /**
   * Settings of the first logs, which are always named. One that came later is named where it isn't
   * as by default: so a log stays the same whatever settings come.
   */
  private static final int ALWAYS = 16;

  /** Kinds of a setting that has several, each with its defaults. */
  private static final Map<Class<?>, Record> VARIANTS =
      Map.of(
          KvSetup.Counted.class,
          new KvSetup.Counted(-1),
          RouterChoice.Default.class,
          new RouterChoice.Default(PlacementView.ADMISSION),
          RouterChoice.KvAware.class,
          new RouterChoice.KvAware(KvAwareRouter.Options.DEFAULTS),
          RouterChoice.Conversation.class,
          new RouterChoice.Conversation(ConversationRouter.Options.DEFAULTS),
          ContextHold.Never.class,
          new ContextHold.Never(),
          ContextHold.Balanced.class,
          new ContextHold.Balanced(BalanceGate.Rules.DEFAULT),
          ContextHold.Batched.class,
          new ContextHold.Batched(BatchWait.Rules.NONE));

  private ConfigText() {}

  // ------------------------------------------------------------------------------ to text

  /**
   * Every setting.
   *
   * @throws BerthException CONFIGURATION for an engine with tokens, which the log doesn't keep
   */
  static Map<String, String> write(EngineConfig config) {
    if (config.kv() instanceof KvSetup.Paged) {
      throw new BerthException(
          Code.CONFIGURATION,
          "a decision log keeps lengths, not tokens: an engine with a paged KV cache can't be logged");
    }
    if (config.ownPolicy().isPresent()) {
      throw new BerthException(
          Code.CONFIGURATION,
          "a decision log names policies, it can't keep one of the caller's own: such an engine can't be logged");
    }
    var text = new LinkedHashMap<String, String>();
    Record defaults = EngineConfig.of(config.plan(), config.role());
    RecordComponent[] components = EngineConfig.class.getRecordComponents();
    for (int i = 0; i < components.length; i++) {
      Object value = get(components[i], config);
      if (i < ALWAYS || !value.equals(get(components[i], defaults))) {
        write(components[i].getName(), value, text);
      }
    }
    return text;
  }

  private static void write(String name, Object value, Map<String, String> text) {
    switch (value) {
      case SeatPlan plan -> {
        write(name + ".shape", plan.shape(), text);
        write(name + ".policy", plan.policy(), text);
        write(name + ".whatIf", plan.whatIf(), text);
      }
      case KvSetup.Paged ignored ->
          throw new BerthException(
              Code.CONFIGURATION,
              "a decision log holds engines whose pages are counted: tokens of prompts aren't logged");
      case Record nested -> {
        if (VARIANTS.containsKey(nested.getClass())) {
          text.put(name + KIND, nested.getClass().getSimpleName());
        }
        for (RecordComponent component : nested.getClass().getRecordComponents()) {
          String inner = name.isEmpty() ? component.getName() : name + "." + component.getName();
          write(inner, get(component, nested), text);
        }
      }
      case Optional<?> optional -> optional.ifPresent(v -> write(name, v, text));
      case OptionalInt optional -> optional.ifPresent(v -> text.put(name, String.valueOf(v)));
      case Set<?> set ->
          text.put(
              name,
              set.stream()
                  .map(e -> ((Enum<?>) e).name())
                  .sorted()
                  .collect(Collectors.joining(",")));
      case Enum<?> e -> text.put(name, e.name());
      case Integer i -> text.put(name, i.toString());
      case Long l -> text.put(name, l.toString());
      case Double d -> text.put(name, d.toString());
      case String s -> text.put(name, s);
      default ->
          throw new BerthException(
              Code.INTERNAL,
              "the decision log can't write the setting %s, a %s"
                  .formatted(name, value.getClass().getName()));
    }
  }

  private static Object get(RecordComponent component, Object record) {
    try {
      return component.getAccessor().invoke(record);
    } catch (IllegalAccessException | InvocationTargetException e) {
      throw new BerthException(Code.INTERNAL, "component " + component + " can't be read", e);
    }
  }

  // ------------------------------------------------------------------------------ from text

  /**
   * The configuration again.
   *
   * @throws IllegalArgumentException in words, if a name or a value is none or the whole can't work
   */
  static EngineConfig read(Map<String, String> text) {
    var unread = new HashSet<>(text.keySet());
    SeatPlan plan = plan(text, unread);
    WorkerRole role = one(WorkerRole.class, "role", require(text, "role"));
    Object config = read("", EngineConfig.of(plan, role), text, unread, plan);
    if (!unread.isEmpty()) {
      throw new IllegalArgumentException(
          "there is no setting '" + unread.stream().sorted().findFirst().orElseThrow() + "'");
    }
    return (EngineConfig) config;
  }

  private static SeatPlan plan(Map<String, String> text, Set<String> unread) {
    var base = WorkerShape.builder(1).build();
    var shape = (WorkerShape) read(PLAN + ".shape", base, text, unread, base);
    String policy = require(text, PLAN + ".policy");
    unread.remove(PLAN + ".policy");
    var whatIf = (WhatIf) read(PLAN + ".whatIf", WhatIf.NONE, text, unread, base);
    return switch (SeatPlan.of(shape, one(SeatPolicy.class, PLAN + ".policy", policy))) {
      case PlanOutcome.Planned(SeatPlan planned) -> planned.withWhatIf(whatIf);
      case PlanOutcome.Refused(var reasons) ->
          throw new IllegalArgumentException(
              reasons.stream().map(Reason::message).collect(Collectors.joining("; ")));
    };
  }

  private static String require(Map<String, String> text, String name) {
    String value = text.get(name);
    if (value == null) {
      throw new IllegalArgumentException("the setting '" + name + "' is missing");
    }
    return value;
  }

  /** A record with the values of a text, the others as they are in {@code base}. */
  private static Object read(
      String prefix, Record base, Map<String, String> text, Set<String> unread, Object plan) {
    RecordComponent[] components = base.getClass().getRecordComponents();
    var values = new Object[components.length];
    for (int i = 0; i < components.length; i++) {
      String name =
          prefix.isEmpty() ? components[i].getName() : prefix + "." + components[i].getName();
      Object before = get(components[i], base);
      if (components[i].getType() == SeatPlan.class) {
        values[i] = plan;
      } else if (components[i].getName().equals(OWN_POLICY)) {
        values[i] = before; // never written
      } else if (before instanceof Record nested) {
        values[i] =
            read(name, variant(components[i], name, nested, text, unread), text, unread, plan);
      } else {
        String value = text.get(name);
        unread.remove(name);
        values[i] = value == null ? absent(before) : scalar(components[i], name, value);
      }
    }
    return make(base.getClass(), components, values);
  }

  /** The defaults of the kind that the text names, else of the kind that is the default. */
  private static Record variant(
      RecordComponent component,
      String name,
      Record before,
      Map<String, String> text,
      Set<String> unread) {
    String kind = text.get(name + KIND);
    if (kind == null || !component.getType().isSealed()) {
      return before;
    }
    unread.remove(name + KIND);
    return VARIANTS.entrySet().stream()
        .filter(variant -> component.getType().isAssignableFrom(variant.getKey()))
        .filter(variant -> variant.getKey().getSimpleName().equals(kind))
        .map(Map.Entry::getValue)
        .findFirst()
        .orElseThrow(() ->
            new IllegalArgumentException(
                "%s is of the kind '%s': there is none".formatted(name, kind)));
  }

  /** What isn't there is written by leaving it out. */
  private static Object absent(Object before) {
    return switch (before) {
      case Optional<?> ignored -> Optional.empty();
      case OptionalInt ignored -> OptionalInt.empty();
      default -> before;
    };
  }

  private static Object scalar(RecordComponent component, String name, String value) {
    Class<?> type = component.getType();
    try {
      if (type == int.class) {
        return Integer.parseInt(value);
      } else if (type == long.class) {
        return Long.parseLong(value);
      } else if (type == double.class) {
        return Double.parseDouble(value);
      } else if (type == OptionalInt.class) {
        return OptionalInt.of(Integer.parseInt(value));
      }
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException(name + " is '" + value + "', no number", e);
    }
    if (type.isEnum()) {
      return one(type, name, value);
    } else if (type == Optional.class && argument(component) == String.class) {
      return Optional.of(value);
    } else if (type == Set.class && argument(component) instanceof Class<?> element) {
      var set = new LinkedHashSet<Object>();
      for (String part : value.isEmpty() ? new String[0] : value.split(",", -1)) {
        set.add(one(element, name, part));
      }
      return set;
    }
    throw new BerthException(
        Code.INTERNAL, "the decision log can't read the setting %s, a %s".formatted(name, type));
  }

  private static Type argument(RecordComponent component) {
    return ((ParameterizedType) component.getGenericType()).getActualTypeArguments()[0];
  }

  private static <T> T one(Class<T> type, String name, String value) {
    for (T constant : type.getEnumConstants()) {
      if (((Enum<?>) constant).name().equals(value)) {
        return constant;
      }
    }
    throw new IllegalArgumentException(
        "%s is '%s', allowed: %s".formatted(name, value, Arrays.toString(type.getEnumConstants())));
  }

  private static Object make(Class<?> type, RecordComponent[] components, Object[] values) {
    Class<?>[] types =
        Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
    try {
      return type.getDeclaredConstructor(types).newInstance(values);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      if (cause instanceof IllegalArgumentException || cause instanceof BerthException) {
        throw new IllegalArgumentException(cause.getMessage(), cause);
      }
      throw new BerthException(Code.INTERNAL, type.getName() + " can't be made", e);
    } catch (ReflectiveOperationException e) {
      throw new BerthException(Code.INTERNAL, type.getName() + " can't be made", e);
    }
  }
}
