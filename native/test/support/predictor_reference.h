#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "predictor/predictor_weights.h"

// The predictor in double precision and plain loops, one sequence at a time: what the packed float32 code is
// held against, and what finite differences are taken of.
namespace sida::testing {

using Doubles = std::vector<double>;

inline Doubles random_doubles(size_t count, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  Doubles values(count);
  for (double& v : values) v = scale * (static_cast<double>(random() >> 40) / (1 << 23) - 1.0);
  // What float32 cannot hold would count as an error of the code under test.
  for (double& v : values) v = static_cast<float>(v);
  return values;
}

inline std::vector<float> floats(const Doubles& values) { return {values.begin(), values.end()}; }

/// Sorts, finds the support, subtracts the threshold.
inline Doubles reference_sparsemax(const Doubles& z) {
  Doubles sorted = z;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0;
  double threshold = 0;
  for (size_t k = 1; k <= sorted.size(); ++k) {
    sum += sorted[k - 1];
    if (1 + static_cast<double>(k) * sorted[k - 1] > sum) threshold = (sum - 1) / static_cast<double>(k);
  }
  Doubles p(z.size());
  for (size_t i = 0; i < z.size(); ++i) p[i] = std::max(z[i] - threshold, 0.0);
  return p;
}

inline Doubles reference_softmax(const Doubles& z) {
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0;
  Doubles p(z.size());
  for (size_t i = 0; i < z.size(); ++i) sum += p[i] = std::exp(z[i] - top);
  for (double& v : p) v /= sum;
  return p;
}

/// y (n) = w (n, k) · x (k) + b; b may be null.
inline Doubles reference_linear(const double* w, const double* b, const double* x, size_t n, size_t k) {
  Doubles y(n);
  for (size_t i = 0; i < n; ++i) {
    y[i] = b != nullptr ? b[i] : 0;
    for (size_t j = 0; j < k; ++j) y[i] += w[i * k + j] * x[j];
  }
  return y;
}

/// x (tokens, width) to (tokens, h).
inline Doubles reference_lstm(const double* w_input, const double* w_hidden, const double* bias,
                              const Doubles& x, size_t tokens, size_t width, size_t h) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  Doubles y(tokens * h);
  Doubles state(h, 0.0);
  Doubles cell(h, 0.0);
  for (size_t t = 0; t < tokens; ++t) {
    const Doubles a = reference_linear(w_input, bias, x.data() + t * width, 4 * h, width);
    const Doubles b = reference_linear(w_hidden, nullptr, state.data(), 4 * h, h);
    for (size_t j = 0; j < h; ++j) {
      const auto gate = [&](size_t index) { return a[index * h + j] + b[index * h + j]; };
      cell[j] = sigmoid(gate(1)) * cell[j] + sigmoid(gate(0)) * std::tanh(gate(2));
      state[j] = sigmoid(gate(3)) * std::tanh(cell[j]);
      y[t * h + j] = state[j];
    }
  }
  return y;
}

/// out = y + sparsemax(y · yᵀ / sqrt(h)) · y, or with softmax
inline Doubles reference_attention(const Doubles& y, size_t tokens, size_t h, bool causal,
                                   WeightFunction weights) {
  Doubles out = y;
  for (size_t t = 0; t < tokens; ++t) {
    Doubles scores(causal ? t + 1 : tokens);
    for (size_t j = 0; j < scores.size(); ++j) {
      for (size_t i = 0; i < h; ++i) scores[j] += y[t * h + i] * y[j * h + i];
      scores[j] /= std::sqrt(static_cast<double>(h));
    }
    const Doubles p =
        weights == WeightFunction::kSoftmax ? reference_softmax(scores) : reference_sparsemax(scores);
    for (size_t j = 0; j < scores.size(); ++j) {
      for (size_t i = 0; i < h; ++i) out[t * h + i] += p[j] * y[j * h + i];
    }
  }
  return out;
}

/// One LSTM layer of a predictor over (tokens, h): one way, or both ways side by side.
inline Doubles reference_recurrent(const PredictorLayout& layout, const Doubles& weights, size_t number,
                                   const Doubles& x, size_t tokens) {
  const size_t h = layout.config().hidden;
  const size_t units = layout.config().units();
  const auto run = [&](size_t direction, const Doubles& in) {
    const LstmParts parts = lstm_parts(number, direction);
    const auto at = [&](PredictorPart part) { return weights.data() + layout.offset(part); };
    return reference_lstm(at(parts.input), at(parts.hidden), at(parts.bias), in, tokens, h, units);
  };
  const Doubles ahead = run(0, x);
  if (!layout.config().bidirectional) return ahead;
  Doubles reversed;
  for (size_t t = tokens; t-- > 0;) reversed.insert(reversed.end(), &x[t * h], &x[t * h] + h);
  const Doubles back = run(1, reversed);
  Doubles y;
  for (size_t t = 0; t < tokens; ++t) {
    y.insert(y.end(), &ahead[t * units], &ahead[t * units] + units);
    y.insert(y.end(), &back[(tokens - 1 - t) * units], &back[(tokens - 1 - t) * units] + units);
  }
  return y;
}

/// x / sqrt(mean(x²) + 1e-6) · (1 + gain) of rows (·, h)
inline Doubles reference_norm(const double* gain, const Doubles& x, size_t h) {
  Doubles y(x.size());
  for (size_t row = 0; row < x.size(); row += h) {
    double squares = 0;
    for (size_t i = 0; i < h; ++i) squares += x[row + i] * x[row + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(h) + 1e-6);
    for (size_t i = 0; i < h; ++i) y[row + i] = x[row + i] * scale * (1 + gain[i]);
  }
  return y;
}

/// T5's bucket of key - query, both directions, 32 buckets over distances below 128.
inline size_t reference_bucket(int distance) {
  const size_t side = distance > 0 ? 16 : 0;
  const int far = std::abs(distance);
  if (far < 8) return side + static_cast<size_t>(far);
  const double share = std::log(far / 8.0) / std::log(128.0 / 8.0);
  return side + std::min<size_t>(15, 8 + static_cast<size_t>(share * 8 + 1e-9));
}

/// x (tokens, h) through residual block `number`.
inline Doubles reference_block(const PredictorLayout& layout, const Doubles& weights, size_t number,
                               Doubles x, size_t tokens) {
  using P = PredictorPart;
  const size_t h = layout.config().hidden;
  const auto w = [&](P part) { return weights.data() + layout.offset(block_part(part, number)); };
  const Doubles normed = reference_norm(w(P::kBlockAttentionNorm), x, h);
  Doubles qkv;
  for (size_t t = 0; t < tokens; ++t) {
    const Doubles row = reference_linear(w(P::kBlockQkv), nullptr, &normed[t * h], 3 * h, h);
    qkv.insert(qkv.end(), row.begin(), row.end());
  }
  Doubles attended(tokens * h);
  for (size_t head = 0; head < h / 16; ++head) {
    for (size_t t = 0; t < tokens; ++t) {
      Doubles p(layout.config().causal ? t + 1 : tokens);
      double sum = 0;
      for (size_t j = 0; j < p.size(); ++j) {
        double score = 0;
        for (size_t i = head * 16; i < head * 16 + 16; ++i)
          score += qkv[t * 3 * h + i] * qkv[j * 3 * h + h + i];
        const size_t bucket = reference_bucket(static_cast<int>(j) - static_cast<int>(t));
        p[j] = std::exp(score / 4 + w(P::kBlockPositions)[head * 32 + bucket]);
        sum += p[j];
      }
      for (size_t j = 0; j < p.size(); ++j) {
        for (size_t i = head * 16; i < head * 16 + 16; ++i) {
          attended[t * h + i] += p[j] / sum * qkv[j * 3 * h + 2 * h + i];
        }
      }
    }
  }
  for (size_t t = 0; t < tokens; ++t) {
    const Doubles more = reference_linear(w(P::kBlockAttentionOut), nullptr, &attended[t * h], h, h);
    for (size_t i = 0; i < h; ++i) x[t * h + i] += more[i];
  }
  const Doubles middle = reference_norm(w(P::kBlockFeedForwardNorm), x, h);
  for (size_t t = 0; t < tokens; ++t) {
    Doubles wide =
        reference_linear(w(P::kBlockFeedForwardUp), w(P::kBlockFeedForwardBias), &middle[t * h], 2 * h, h);
    for (double& v : wide) v = std::max(v, 0.0);
    const Doubles more = reference_linear(w(P::kBlockFeedForwardDown), nullptr, wide.data(), h, 2 * h);
    for (size_t i = 0; i < h; ++i) x[t * h + i] += more[i];
  }
  return x;
}

/// From compressed rows (tokens, h) of one sequence to what the heads see.
inline Doubles reference_features(const PredictorLayout& layout, const Doubles& weights, Doubles x,
                                  size_t tokens) {
  using P = PredictorPart;
  const PredictorConfig& c = layout.config();
  const size_t h = c.hidden;
  const auto w = [&](P part) { return weights.data() + layout.offset(part); };
  for (size_t b = 0; b < c.blocks; ++b) x = reference_block(layout, weights, b, x, tokens);
  if (c.blocks > 0) return reference_norm(w(P::kFinalNorm), x, h);
  for (size_t l = 0; l < c.lstm_layers; ++l) x = reference_recurrent(layout, weights, l, x, tokens);
  Doubles r = reference_attention(x, tokens, h, c.causal, c.attention_weights);
  for (size_t t = 0; t < tokens; ++t) {
    const Doubles u = reference_linear(w(P::kResidualWeight), w(P::kResidualBias), r.data() + t * h, h, h);
    for (size_t i = 0; i < h; ++i) r[t * h + i] += std::max(u[i], 0.0);
  }
  return r;
}

/// Logits (layers, rows, experts) of sequences one after the other; `summaries` may be null.
inline Doubles reference_predictor(const PredictorLayout& layout, const Doubles& weights, const Doubles& x,
                                   std::span<const uint32_t> lengths, const double* summaries) {
  using P = PredictorPart;
  const PredictorConfig& c = layout.config();
  const size_t h = c.hidden;
  const auto w = [&](P part) { return weights.data() + layout.offset(part); };
  const size_t rows = x.size() / c.d_in;
  Doubles logits(c.layers * rows * c.experts);
  size_t first = 0;
  for (size_t s = 0; s < lengths.size(); first += lengths[s], ++s) {
    const size_t tokens = lengths[s];
    Doubles compressed;
    for (size_t t = 0; t < tokens; ++t) {
      Doubles row = reference_linear(w(P::kCompressWeight), w(P::kCompressBias),
                                     x.data() + (first + t) * c.d_in, h, c.d_in);
      if (c.summary && summaries != nullptr) {
        const Doubles more =
            reference_linear(w(P::kSummaryWeight), nullptr, summaries + s * c.d_in, h, c.d_in);
        for (size_t i = 0; i < h; ++i) row[i] += more[i];
      }
      for (const double v : row) compressed.push_back(layout.config().blocks > 0 ? v : std::max(v, 0.0));
    }
    const Doubles u = reference_features(layout, weights, compressed, tokens);
    for (size_t t = 0; t < tokens; ++t) {
      const Doubles all =
          reference_linear(w(P::kHeadWeight), w(P::kHeadBias), u.data() + t * h, c.layers * c.experts, h);
      for (size_t l = 0; l < c.layers; ++l) {
        std::copy_n(all.data() + l * c.experts, c.experts, &logits[(l * rows + first + t) * c.experts]);
      }
    }
  }
  return logits;
}

/// Gradient of f at x by central differences.
inline Doubles numeric_gradient(Doubles x, const std::function<double(const Doubles&)>& f,
                                double step = 1e-6) {
  Doubles gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double above = f(x);
    x[i] = at - step;
    const double below = f(x);
    x[i] = at;
    gradient[i] = (above - below) / (2 * step);
  }
  return gradient;
}

/// Largest |a - b| over `count` elements, relative to the largest |b|.
inline double relative_error(const float* a, const double* b, size_t count) {
  double error = 0;
  double largest = 1e-12;
  for (size_t i = 0; i < count; ++i) {
    error = std::max(error, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return error / largest;
}

}  // namespace sida::testing
