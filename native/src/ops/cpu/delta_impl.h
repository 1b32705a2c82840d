// Gated delta rules, for float_kernels_impl.h. A column's operations have one order, token by token, so that its bits
// depend neither on the pass that a token is in nor on the columns that are computed beside it.

#pragma once

#include "ops/cpu/exp16_impl.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

void convolve(const ConvolutionTask& t) {
  for (size_t column = t.begin; column < t.end; column += 16) {
    const size_t count = t.end - column;
    V taps[DeltaSpec::kMostTaps], inputs[DeltaSpec::kMostTaps];
    for (size_t i = 0; i < t.taps; ++i) {
      alignas(64) float lane[16] = {};
      for (size_t j = 0; j < 16 && j < count; ++j) lane[j] = t.weight[(column + j) * t.taps + i];
      taps[i] = V::load(lane);
    }
    const size_t kept = t.taps - 1;
    for (size_t i = 0; i < kept; ++i) {
      inputs[i] = t.first ? V::set(0.0f) : load_some(t.kept + i * t.stride + column, count);
    }
    for (size_t row = 0; row < t.rows; ++row) {
      float* x = t.x + row * t.stride + column;
      inputs[kept] = load_some(x, count);
      V sum = V::mul(taps[0], inputs[0]);
      for (size_t i = 1; i < t.taps; ++i) sum = V::fma(taps[i], inputs[i], sum);
      store_some(x, count, silu16(sum));
      for (size_t i = 0; i < kept; ++i) inputs[i] = inputs[i + 1];
    }
    for (size_t i = 0; i < kept; ++i) store_some(t.kept + i * t.stride + column, count, inputs[i]);
  }
}

void unit_rows(float* x, size_t rows, size_t n, float length) {
  for (size_t r = 0; r < rows; ++r, x += n) {
    V squares = V::set(0.0f);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      const V v = V::loadu(x + i);
      squares = V::fma(v, v, squares);
    }
    float sum = reduce_add(squares);
    for (size_t j = i; j < n; ++j) sum += x[j] * x[j];
    scale(length / std::sqrt(sum + kUnitEpsilon), x, n);
  }
}

/// 16 · kBlocks columns from `column` on.
template <size_t kBlocks>
void learn_columns(const DeltaRuleTask& t, size_t column) {
  const size_t stride = t.state_stride;
  float* state = t.state + column;
  for (size_t i = 0; t.first && i < t.key_dim; ++i) {
    for (size_t b = 0; b < kBlocks; ++b) V::storeu(state + i * stride + 16 * b, V::set(0.0f));
  }
  for (size_t row = 0; row < t.rows; ++row) {
    const float* q = t.queries + row * t.key_stride;
    const float* k = t.keys + row * t.key_stride;
    float* v = t.values + row * t.value_stride + column;
    const V decay = V::set(t.decays[row * t.heads]), beta = V::set(t.betas[row * t.heads]);
    V known[kBlocks], answer[kBlocks];
    for (size_t b = 0; b < kBlocks; ++b) known[b] = answer[b] = V::set(0.0f);
    for (size_t i = 0; i < t.key_dim; ++i) {
      const V key = V::set(k[i]);
      for (size_t b = 0; b < kBlocks; ++b) {
        known[b] = V::fma(key, V::mul(decay, V::loadu(state + i * stride + 16 * b)), known[b]);
      }
    }
    for (size_t b = 0; b < kBlocks; ++b) {
      known[b] = V::mul(beta, V::sub(load_some(v + 16 * b, t.value_dim - column - 16 * b), known[b]));
    }
    for (size_t i = 0; i < t.key_dim; ++i) {
      const V key = V::set(k[i]), query = V::set(q[i]);
      for (size_t b = 0; b < kBlocks; ++b) {
        float* place = state + i * stride + 16 * b;
        const V next = V::fma(key, known[b], V::mul(decay, V::loadu(place)));
        V::storeu(place, next);
        answer[b] = V::fma(query, next, answer[b]);
      }
    }
    for (size_t b = 0; b < kBlocks; ++b) store_some(v + 16 * b, t.value_dim - column - 16 * b, answer[b]);
  }
}

void delta_rule(const DeltaRuleTask& t) {
  const size_t blocks = t.state_stride / 16;
  for (size_t block = 0; block < blocks;) {
    block += with_rows<kChains>(blocks - block, [&]<size_t kBlocks>() { learn_columns<kBlocks>(t, 16 * block); });
  }
}

void gate_sigmoid(const float* logits, float* x, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    store_some(x + i, n - i, V::mul(load_some(x + i, n - i), sigmoid16(load_some(logits + i, n - i))));
  }
}

void gate_silu(const float* logits, float* x, size_t n) {
  for (size_t i = 0; i < n; i += 16) {
    store_some(x + i, n - i, V::mul(load_some(x + i, n - i), silu16(load_some(logits + i, n - i))));
  }
}

}  // namespace
}  // namespace sida
