// SPDX-License-Identifier: Apache-2.0
package dev.berth.journey;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/**
 * A small decoder with fixed weights: embedding, layers of causal attention over cached keys and
 * values with a feed-forward behind, logits, and a greedy sampler that dislikes what it said
 * before. Doubles in a fixed order, so equal inputs give equal tokens. Where keys, values and
 * sampler state live is the caller's business.
 */
final class TinyTransformer {
  static final int WIDTH = 16;
  static final int VOCABULARY = 64;
  static final int LAYERS = 2;

  /** Tokens below this end a sequence. */
  static final int END_TOKENS = 2;

  private static final int HIDDEN = 32;
  private static final double PENALTY = 0.35;

  /** Keys and values of one sequence in one layer, by position. */
  interface Cache {
    double[] key(int layer, int position);

    double[] value(int layer, int position);
  }

  /** What a sampler remembers of one sequence. */
  static final class SamplerRow {
    final int[] said = new int[VOCABULARY];
    int lastToken;

    /** A new sequence begins in this row. */
    void begin() {
      Arrays.fill(said, 0);
      lastToken = 0;
    }
  }

  private record Layer(
      double[][] query,
      double[][] key,
      double[][] value,
      double[][] out,
      double[][] up,
      double[][] down) {}

  private final double[][] embedding;
  private final List<Layer> layers = new ArrayList<>();

  TinyTransformer(long seed) {
    RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(seed);
    embedding = matrix(random, VOCABULARY, WIDTH);
    for (int i = 0; i < LAYERS; i++) {
      layers.add(
          new Layer(
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

  /** The first layer's input. */
  double[] embed(int token, int position) {
    double[] x = embedding[token].clone();
    for (int i = 0; i < WIDTH; i++) {
      x[i] += 0.5 * Math.sin(position / Math.pow(100, i / (double) WIDTH));
    }
    return x;
  }

  /** One token through one layer: writes its key and value, attends to all positions up to it. */
  double[] layer(int layer, double[] x, int position, Cache cache) {
    Layer w = layers.get(layer);
    double[] in = normal(x);
    double[] query = times(w.query, in);
    System.arraycopy(times(w.key, in), 0, cache.key(layer, position), 0, WIDTH);
    System.arraycopy(times(w.value, in), 0, cache.value(layer, position), 0, WIDTH);
    double[] weight = new double[position + 1];
    double highest = Double.NEGATIVE_INFINITY;
    for (int p = 0; p <= position; p++) {
      weight[p] = 2 * dot(query, cache.key(layer, p)) / Math.sqrt(WIDTH);
      highest = Math.max(highest, weight[p]);
    }
    double sum = 0;
    double[] mixed = new double[WIDTH];
    for (int p = 0; p <= position; p++) {
      double e = Math.exp(weight[p] - highest);
      sum += e;
      double[] value = cache.value(layer, p);
      for (int i = 0; i < WIDTH; i++) {
        mixed[i] += e * value[i];
      }
    }
    for (int i = 0; i < WIDTH; i++) {
      mixed[i] /= sum;
    }
    double[] y = plus(x, times(w.out, mixed));
    double[] hidden = times(w.up, normal(y));
    for (int i = 0; i < HIDDEN; i++) {
      hidden[i] = Math.max(0, hidden[i]);
    }
    return plus(y, times(w.down, hidden));
  }

  /** The next token of a sequence, remembered in its row. */
  int sample(double[] x, SamplerRow row) {
    double[] last = normal(x);
    int best = 0;
    double highest = Double.NEGATIVE_INFINITY;
    for (int token = 0; token < VOCABULARY; token++) {
      double score = dot(embedding[token], last) - PENALTY * row.said[token];
      if (score > highest) {
        highest = score;
        best = token;
      }
    }
    row.said[best]++;
    row.lastToken = best;
    return best;
  }

  /**
   * Output of a prompt run alone, one token after the other, with nothing of an engine around it.
   */
  List<Integer> decode(List<Integer> prompt, int maxNewTokens) {
    int length = prompt.size() + maxNewTokens;
    double[][][] keys = new double[LAYERS][length][WIDTH];
    double[][][] values = new double[LAYERS][length][WIDTH];
    Cache cache =
        new Cache() {
          @Override
          public double[] key(int layer, int position) {
            return keys[layer][position];
          }

          @Override
          public double[] value(int layer, int position) {
            return values[layer][position];
          }
        };
    var row = new SamplerRow();
    var output = new ArrayList<Integer>();
    for (int position = 0; ; position++) {
      int token =
          position < prompt.size() ? prompt.get(position) : output.get(position - prompt.size());
      double[] x = embed(token, position);
      for (int layer = 0; layer < LAYERS; layer++) {
        x = layer(layer, x, position, cache);
      }
      if (position >= prompt.size() - 1) {
        output.add(sample(x, row));
        if (output.size() == maxNewTokens || output.getLast() < END_TOKENS) {
          return output;
        }
      }
    }
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
