// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import dev.berth.kv.KvReach;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/**
 * A small decoder with fixed weights: embedding, layers of causal attention over cached keys and
 * values (all of them, or a window with sinks) or of a recurrent state, with a feed-forward behind,
 * logits, and a greedy sampler that dislikes what it said before. Doubles in a fixed order, so
 * equal inputs give equal tokens. Where keys, values, states and sampler state live is the caller's
 * business.
 */
public final class TinyTransformer {
  public static final int WIDTH = 16;
  public static final int VOCABULARY = 64;
  static final int LAYERS = 2;

  /** Tokens below this end a sequence. */
  public static final int END_TOKENS = 2;

  private static final int HIDDEN = 32;
  private static final double PENALTY = 0.35;

  /** Keys, values and states of one sequence, by layer and position. */
  public interface Cache {
    double[] key(int layer, int position);

    double[] value(int layer, int position);

    /** Stores the key and value of a position. Here: into the arrays that are read. */
    default void put(int layer, int position, double[] key, double[] value) {
      System.arraycopy(key, 0, key(layer, position), 0, WIDTH);
      System.arraycopy(value, 0, value(layer, position), 0, WIDTH);
    }

    /** The state that the last position left. */
    default double[] state(int layer) {
      throw new UnsupportedOperationException("no state of layer " + layer);
    }

    /** Stores a state. */
    default void putState(int layer, double[] state) {
      throw new UnsupportedOperationException("no state of layer " + layer);
    }
  }

  /** What a sampler remembers of one sequence. */
  public static final class SamplerRow {
    final int[] said = new int[VOCABULARY];
    int lastToken;

    /** A new sequence begins in this row. */
    public void begin() {
      Arrays.fill(said, 0);
      lastToken = 0;
    }

    /** The sequence goes on as that one did so far. */
    public void copy(SamplerRow other) {
      System.arraycopy(other.said, 0, said, 0, VOCABULARY);
      lastToken = other.lastToken;
    }

    /** The token sampled last. */
    public int lastToken() {
      return lastToken;
    }
  }

  private record Layer(
      KvReach reach,
      double[][] query,
      double[][] key,
      double[][] value,
      double[][] out,
      double[][] up,
      double[][] down) {}

  private final double[][] embedding;
  private final List<Layer> layers = new ArrayList<>();

  TinyTransformer(long seed) {
    this(seed, List.of(KvReach.FULL, KvReach.FULL));
  }

  /** A model with a layer for each reach. */
  public TinyTransformer(long seed, List<KvReach> reaches) {
    RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    embedding = matrix(random, VOCABULARY, WIDTH);
    for (KvReach reach : reaches) {
      layers.add(
          new Layer(
              reach,
              matrix(random, WIDTH, WIDTH),
              matrix(random, WIDTH, WIDTH),
              matrix(random, WIDTH, WIDTH),
              matrix(random, WIDTH, WIDTH),
              matrix(random, HIDDEN, WIDTH),
              matrix(random, WIDTH, HIDDEN)));
    }
  }

  private static double[][] matrix(RandomGenerator random, int rows, int columns) {
    double[][] m = new double[rows][columns];
    for (double[] row : m) {
      for (int i = 0; i < columns; i++) {
        row[i] = random.nextGaussian() / Math.sqrt(columns);
      }
    }
    return m;
  }

  /** Layers. */
  public int layers() {
    return layers.size();
  }

  /** The first layer's input. */
  double[] embed(int token, int position) {
    return embed(token, position, 0);
  }

  /** The same with an adapter: the same tokens mean something else under each. */
  public double[] embed(int token, int position, int adapter) {
    double[] x = embedding[token].clone();
    for (int i = 0; i < WIDTH; i++) {
      x[i] += 0.5 * Math.sin(position / Math.pow(100, i / (double) WIDTH));
      x[i] += adapter == 0 ? 0 : 0.7 * embedding[adapter % VOCABULARY][i];
    }
    return x;
  }

  /** One token through one layer: writes its key and value, attends to all positions up to it. */
  double[] layer(int layer, double[] x, int position, Cache cache) {
    return layer(layer, new double[][] {x}, position, cache)[0];
  }

  /**
   * Tokens from position first on through one layer, as a kernel does it: first all keys and values
   * are written, then each position attends to what it reaches.
   */
  public double[][] layer(int layer, double[][] x, int first, Cache cache) {
    Layer w = layers.get(layer);
    double[][] out = new double[x.length][];
    if (w.reach instanceof KvReach.State) {
      double[] state = first == 0 ? new double[WIDTH] : cache.state(layer);
      for (int t = 0; t < x.length; t++) {
        double[] in = normal(x[t]);
        state = squashed(plus(times(w.key, state), times(w.value, in)));
        out[t] = forward(w, x[t], state);
      }
      cache.putState(layer, state);
      return out;
    }
    for (int t = 0; t < x.length; t++) {
      double[] in = normal(x[t]);
      cache.put(layer, first + t, times(w.key, in), times(w.value, in));
    }
    for (int t = 0; t < x.length; t++) {
      double[] query = times(w.query, normal(x[t]));
      out[t] = forward(w, x[t], attend(w.reach, layer, query, first + t, cache));
    }
    return out;
  }

  private static double[] attend(
      KvReach reach, int layer, double[] query, int position, Cache cache) {
    double[] weight = new double[position + 1];
    double highest = Double.NEGATIVE_INFINITY;
    for (int p = 0; p <= position; p++) {
      if (reaches(reach, position, p)) {
        weight[p] = 2 * dot(query, cache.key(layer, p)) / Math.sqrt(WIDTH);
        highest = Math.max(highest, weight[p]);
      }
    }
    double sum = 0;
    double[] mixed = new double[WIDTH];
    for (int p = 0; p <= position; p++) {
      if (reaches(reach, position, p)) {
        double e = Math.exp(weight[p] - highest);
        sum += e;
        double[] value = cache.value(layer, p);
        for (int i = 0; i < WIDTH; i++) {
          mixed[i] += e * value[i];
        }
      }
    }
    for (int i = 0; i < WIDTH; i++) {
      mixed[i] /= sum;
    }
    return mixed;
  }

  private static boolean reaches(KvReach reach, int from, int to) {
    return switch (reach) {
      case KvReach.Full() -> true;
      case KvReach.Window(int window, int sinks) -> to > from - window || to < sinks;
      case KvReach.State() -> false;
    };
  }

  private static double[] forward(Layer w, double[] x, double[] mixed) {
    double[] y = plus(x, times(w.out, mixed));
    double[] hidden = times(w.up, normal(y));
    for (int i = 0; i < HIDDEN; i++) {
      hidden[i] = Math.max(0, hidden[i]);
    }
    return plus(y, times(w.down, hidden));
  }

  /** The next token of a sequence, remembered in its row. */
  public int sample(double[] x, SamplerRow row) {
    return sample(x, row, 0);
  }

  /** The same, but the token that scores better than all but so many. */
  public int sample(double[] x, SamplerRow row, int better) {
    double[] last = normal(x);
    double[] score = new double[VOCABULARY];
    for (int token = 0; token < VOCABULARY; token++) {
      score[token] = dot(embedding[token], last) - PENALTY * row.said[token];
    }
    int best = 0;
    for (int rank = 0; rank <= better; rank++) {
      if (rank > 0) {
        score[best] = Double.NEGATIVE_INFINITY;
      }
      best = 0;
      for (int token = 1; token < VOCABULARY; token++) {
        if (score[token] > score[best]) {
          best = token;
        }
      }
    }
    row.said[best]++;
    row.lastToken = best;
    return best;
  }

  /** Keys, values and states side by side: nothing of pages. */
  private final class Contiguous implements Cache {
    private final double[][][] keys;
    private final double[][][] values;
    private final double[][] states = new double[layers.size()][WIDTH];

    Contiguous(int length) {
      keys = new double[layers.size()][length][WIDTH];
      values = new double[layers.size()][length][WIDTH];
    }

    @Override
    public double[] key(int layer, int position) {
      return keys[layer][position];
    }

    @Override
    public double[] value(int layer, int position) {
      return values[layer][position];
    }

    @Override
    public double[] state(int layer) {
      return states[layer];
    }

    @Override
    public void putState(int layer, double[] state) {
      states[layer] = state;
    }
  }

  /**
   * Output of a prompt run alone, one token after the other, with nothing of an engine around it.
   */
  List<Integer> decode(List<Integer> prompt, int maxNewTokens) {
    return decode(prompt.stream().mapToInt(Integer::intValue).toArray(), 0, maxNewTokens);
  }

  /** The same with an adapter. */
  public List<Integer> decode(int[] prompt, int adapter, int maxNewTokens) {
    return decode(prompt, adapter, 0, END_TOKENS, maxNewTokens);
  }

  /**
   * A beam: begins with the token that scores better than all but so many, then goes on greedily to
   * its limit, whatever it says.
   */
  public List<Integer> decodeBeam(int[] prompt, int adapter, int better, int maxNewTokens) {
    return decode(prompt, adapter, better, 0, maxNewTokens);
  }

  private List<Integer> decode(
      int[] prompt, int adapter, int better, int endTokens, int maxNewTokens) {
    var cache = new Contiguous(prompt.length + maxNewTokens);
    var row = new SamplerRow();
    var output = new ArrayList<Integer>();
    for (int position = 0; ; position++) {
      int token =
          position < prompt.length ? prompt[position] : output.get(position - prompt.length);
      double[] x = embed(token, position, adapter);
      for (int layer = 0; layer < layers.size(); layer++) {
        x = layer(layer, x, position, cache);
      }
      if (position >= prompt.length - 1) {
        output.add(sample(x, row, output.isEmpty() ? better : 0));
        if (output.size() == maxNewTokens || output.getLast() < endTokens) {
          return output;
        }
      }
    }
  }

  private static double[] squashed(double[] x) {
    double[] y = new double[x.length];
    for (int i = 0; i < x.length; i++) {
      y[i] = x[i] / (1 + Math.abs(x[i]));
    }
    return y;
  }

  private static double[] normal(double[] x) {
    double squares = 0;
    for (double v : x) {
      squares += v * v;
    }
    double scale = 1 / Math.sqrt(squares / x.length + 1e-6);
    double[] y = new double[x.length];
    for (int i = 0; i < x.length; i++) {
      y[i] = x[i] * scale;
    }
    return y;
  }

  private static double dot(double[] a, double[] b) {
    double sum = 0;
    for (int i = 0; i < a.length; i++) {
      sum += a[i] * b[i];
    }
    return sum;
  }

  private static double[] times(double[][] m, double[] x) {
    double[] y = new double[m.length];
    for (int i = 0; i < m.length; i++) {
      y[i] = dot(m[i], x);
    }
    return y;
  }

  private static double[] plus(double[] a, double[] b) {
    double[] y = new double[a.length];
    for (int i = 0; i < a.length; i++) {
      y[i] = a[i] + b[i];
    }
    return y;
  }
}
