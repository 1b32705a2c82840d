#pragma once

#include "predictor/predictor_weights.h"
#include "support/float64.h"

// The predictor in double precision and plain loops, one sequence at a time: what the packed float32 code is
// held against, and what finite differences are taken of.
namespace sida::testing {

inline std::vector<float> floats(const Doubles& values) { return {values.begin(), values.end()}; }

/// Random values that float32 holds: what it cannot hold would count as an error of the code under test.
inline Doubles random_doubles(size_t count, double scale, uint64_t seed) {
  std::mt19937_64 random(seed);
  Doubles values(count);
  for (double& v : values) v = static_cast<float>(scale * (static_cast<double>(random() >> 40) / (1 << 23) - 1.0));
  return values;
}

inline double dot(const Doubles& a, const Doubles& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

/// Sorts, finds the support, subtracts the threshold.
inline Doubles sparsemax64(const Doubles& z) {
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

/// y (·, n) = x (·, k) · wᵀ + b; b may be null.
inline Doubles reference_linear(const double* w, const double* b, const Doubles& x, size_t n, size_t k) {
  Doubles y;
  for (size_t row = 0; row < x.size(); row += k) {
    for (size_t i = 0; i < n; ++i) {
      y.push_back(std::inner_product(w + i * k, w + i * k + k, &x[row], b != nullptr ? b[i] : 0.0));
    }
  }
  return y;
}

inline void add_to(Doubles* x, const Doubles& y) { std::ranges::transform(*x, y, x->begin(), std::plus<>()); }

inline Doubles relu64(Doubles x) {
  for (double& v : x) v = std::max(v, 0.0);
  return x;
}

/// x (tokens, width) to (tokens, h).
inline Doubles reference_lstm(const double* w_input, const double* w_hidden, const double* bias, const Doubles& x,
                              size_t width, size_t h) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const Doubles inputs = reference_linear(w_input, bias, x, 4 * h, width);
  Doubles y, state(h), cell(h);
  for (size_t at = 0; at < inputs.size(); at += 4 * h) {
    Doubles gates = reference_linear(w_hidden, nullptr, state, 4 * h, h);
    for (size_t i = 0; i < 4 * h; ++i) gates[i] += inputs[at + i];
    for (size_t j = 0; j < h; ++j) {
      cell[j] = sigmoid(gates[h + j]) * cell[j] + sigmoid(gates[j]) * std::tanh(gates[2 * h + j]);
      state[j] = sigmoid(gates[3 * h + j]) * std::tanh(cell[j]);
    }
    y.insert(y.end(), state.begin(), state.end());
  }
  return y;
}

/// out = y + sparsemax(y · yᵀ / sqrt(h)) · y, or with softmax
inline Doubles reference_attention(const Doubles& y, size_t h, bool causal, WeightFunction weights) {
  const size_t tokens = y.size() / h;
  Doubles out = y;
  for (size_t t = 0; t < tokens; ++t) {
    Doubles p = reference_linear(y.data(), nullptr, part_of(y, t * h, h), causal ? t + 1 : tokens, h);
    for (double& score : p) score /= std::sqrt(static_cast<double>(h));
    p = weights == WeightFunction::kSoftmax ? softmax64(p) : sparsemax64(p);
    for (size_t j = 0; j < p.size(); ++j) {
      for (size_t i = 0; i < h; ++i) out[t * h + i] += p[j] * y[j * h + i];
    }
  }
  return out;
}

/// x / sqrt(mean(x²) + 1e-6) · (1 + gain) of rows (·, h)
inline Doubles reference_norm(const double* gain, Doubles x, size_t h) {
  for (size_t row = 0; row < x.size(); row += h) {
    double squares = 0;
    for (size_t i = 0; i < h; ++i) squares += x[row + i] * x[row + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(h) + 1e-6);
    for (size_t i = 0; i < h; ++i) x[row + i] *= scale * (1 + gain[i]);
  }
  return x;
}

/// T5's bucket of key - query, both directions, 32 buckets over distances below 128.
inline size_t reference_bucket(int distance) {
  const size_t side = distance > 0 ? 16 : 0;
  const int far = std::abs(distance);
  if (far < 8) return side + static_cast<size_t>(far);
  const double share = std::log(far / 8.0) / std::log(128.0 / 8.0);
  return side + std::min<size_t>(15, 8 + static_cast<size_t>(share * 8 + 1e-9));
}

/// The predictor of a layout with its weights as one list.
struct ReferencePredictor {
  using P = PredictorPart;
  const PredictorLayout& layout;
  const Doubles& weights;
  const PredictorConfig& c = layout.config();
  const size_t h = c.hidden;

  const double* w(P part) const { return weights.data() + layout.offset(part); }

  /// One LSTM layer over (tokens, h): one way, or both ways side by side.
  Doubles recurrent(size_t number, const Doubles& x) const {
    const size_t units = c.units();
    const auto run = [&](size_t direction, const Doubles& in) {
      const LstmParts parts = lstm_parts(number, direction);
      return reference_lstm(w(parts.input), w(parts.hidden), w(parts.bias), in, h, units);
    };
    const auto reversed = [](const Doubles& rows, size_t width) {
      Doubles out;
      for (size_t at = rows.size(); at > 0; at -= width) out.insert(out.end(), &rows[at - width], &rows[at - 1] + 1);
      return out;
    };
    const Doubles ahead = run(0, x);
    if (!c.bidirectional) return ahead;
    const Doubles back = reversed(run(1, reversed(x, h)), units);
    Doubles y;
    for (size_t at = 0; at < ahead.size(); at += units) {
      for (const Doubles* half : {&ahead, &back}) y.insert(y.end(), &(*half)[at], &(*half)[at + units - 1] + 1);
    }
    return y;
  }

  /// x (tokens, h) through residual block `number`.
  Doubles block(size_t number, Doubles x) const {
    const size_t tokens = x.size() / h;
    const auto part = [&](P of) { return w(block_part(of, number)); };
    const Doubles qkv =
        reference_linear(part(P::kBlockQkv), nullptr, reference_norm(part(P::kBlockAttentionNorm), x, h), 3 * h, h);
    Doubles attended(tokens * h);
    for (const auto& [head, t] : grid(first_numbers(h / 16), first_numbers(tokens))) {
      const double* q = &qkv[t * 3 * h + head * 16];
      Doubles p;
      for (int j = 0; j < (c.causal ? t + 1 : static_cast<int>(tokens)); ++j) {
        p.push_back(std::inner_product(q, q + 16, &qkv[j * 3 * h + h + head * 16], 0.0) / 4 +
                    part(P::kBlockPositions)[head * 32 + reference_bucket(j - t)]);
      }
      p = softmax64(p);
      for (size_t j = 0; j < p.size(); ++j) {
        for (int i = head * 16; i < head * 16 + 16; ++i) attended[t * h + i] += p[j] * qkv[j * 3 * h + 2 * h + i];
      }
    }
    add_to(&x, reference_linear(part(P::kBlockAttentionOut), nullptr, attended, h, h));
    const Doubles middle = reference_norm(part(P::kBlockFeedForwardNorm), x, h);
    const Doubles wide =
        relu64(reference_linear(part(P::kBlockFeedForwardUp), part(P::kBlockFeedForwardBias), middle, 2 * h, h));
    add_to(&x, reference_linear(part(P::kBlockFeedForwardDown), nullptr, wide, h, 2 * h));
    return x;
  }

  /// From compressed rows (tokens, h) of one sequence to what the heads see.
  Doubles features(Doubles x) const {
    for (size_t b = 0; b < c.blocks; ++b) x = block(b, x);
    if (c.blocks > 0) return reference_norm(w(P::kFinalNorm), x, h);
    for (size_t l = 0; l < c.lstm_layers; ++l) x = recurrent(l, x);
    Doubles r = reference_attention(x, h, c.causal, c.attention_weights);
    add_to(&r, relu64(reference_linear(w(P::kResidualWeight), w(P::kResidualBias), r, h, h)));
    return r;
  }

  /// Logits (layers, rows, experts) of sequences one after the other; `summaries` are read where the layout has them.
  Doubles logits(const Doubles& x, const std::vector<uint32_t>& lengths, const Doubles& summaries) const {
    const size_t rows = x.size() / c.d_in;
    Doubles logits(c.layers * rows * c.experts);
    size_t first = 0;
    for (size_t s = 0; s < lengths.size(); first += lengths[s], ++s) {
      Doubles compressed = reference_linear(w(P::kCompressWeight), w(P::kCompressBias),
                                            part_of(x, first * c.d_in, lengths[s] * c.d_in), h, c.d_in);
      if (c.summary) {
        const Doubles more =
            reference_linear(w(P::kSummaryWeight), nullptr, part_of(summaries, s * c.d_in, c.d_in), h, c.d_in);
        for (size_t i = 0; i < compressed.size(); ++i) compressed[i] += more[i % h];
      }
      const Doubles seen = features(c.blocks > 0 ? compressed : relu64(compressed));
      const Doubles all = reference_linear(w(P::kHeadWeight), w(P::kHeadBias), seen, c.layers * c.experts, h);
      for (size_t i = 0; i < all.size(); ++i) {
        const size_t row = i / (c.layers * c.experts), layer = i / c.experts % c.layers;
        logits[(layer * rows + first + row) * c.experts + i % c.experts] = all[i];
      }
    }
    return logits;
  }
};

/// Gradient of f at x by central differences.
inline Doubles numeric_gradient(Doubles x, const std::function<double(const Doubles&)>& f, double step = 1e-6) {
  Doubles gradient;
  for (double& v : x) {
    const double at = v;
    v = at + step;
    const double above = f(x);
    v = at - step;
    const double below = f(x);
    v = at;
    gradient.push_back((above - below) / (2 * step));
  }
  return gradient;
}

}  // namespace sida::testing
