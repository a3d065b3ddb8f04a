// SPDX-License-Identifier: Apache-2.0
import org.jspecify.annotations.NullMarked;

/** Admission, seating and KV-page engine for LLM serving. */
@NullMarked
module dev.berth {
  requires static org.jspecify;
  requires static org.snakeyaml.engine;
  requires static tools.jackson.core;
  requires static tools.jackson.jr.ob;
  requires static info.picocli;
  requires static jdk.incubator.vector;

  exports dev.berth;
  exports dev.berth.capacity;
  exports dev.berth.config;
  exports dev.berth.engine;
  exports dev.berth.engine.log;
  exports dev.berth.exchange;
  exports dev.berth.id;
  exports dev.berth.kv;
  exports dev.berth.plan;
  exports dev.berth.replay;
  exports dev.berth.request;
  exports dev.berth.route;
  exports dev.berth.simulate;
  exports dev.berth.transfer;

  opens dev.berth.cli to
      info.picocli;
}
