// Kernels over vectors of 16 floats, `V`, and of 16 integers, `I`, which vector_*.h define for an instruction
// set and the including file includes before this one. Everything is in an unnamed namespace: code compiled
// for one instruction set must never be merged by the linker with that of another.

#include <bit>
#include <cmath>
#include <limits>

#include "ops/cpu/exp16_impl.h"
#include "ops/cpu/exp_impl.h"
#include "ops/cpu/gemm_impl.h"
#include "ops/cpu/kernels.h"

namespace sida {
namespace {

inline float reduce_add(V v) {
  alignas(64) float lane[16];
  V::store(lane, v);
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += lane[i];
  return sum;
}

inline float reduce_max(V v) {
  alignas(64) float lane[16];
  V::store(lane, v);
  float best = lane[0];
  for (int i = 1; i < 16; ++i) best = lane[i] > best ? lane[i] : best;
  return best;
}

// Rows of attention that share the keys that they load, and the values.
constexpr size_t kKeyRows = 4, kValueRows = kChains / 4;
// Several such groups of rows take pages in turns, so many at a time, while these are in the L1 cache.
constexpr size_t kSharedPages = 4;

// A place in a page, and 16 numbers from there on.
template <class Element>
const Element* elements(const std::byte* page, size_t place) {
  return reinterpret_cast<const Element*>(page) + place;
}
inline V load16(const float* from) { return V::loadu(from); }
inline V load16(const uint16_t* from) { return V::load_bf16(from); }

// Column `d` of the 16 keys of a page of `head_dim` columns.
template <class Element>
V load_keys(const std::byte* page, size_t d, size_t) {
  return load16(elements<Element>(page, d * kPageTokens));
}
template <>
inline V load_keys<int8_t>(const std::byte* page, size_t d, size_t head_dim) {
  const auto* scales = reinterpret_cast<const uint16_t*>(page + head_dim * kPageTokens);
  return V::mul(V::load_codes(page + d * kPageTokens), load16(scales + d / kKvBlock * kPageTokens));
}

// 16 columns of a token's row of values, or of its latent row, in a page of rows of `stride` columns.
template <class Element>
V load_columns(const std::byte* page, size_t token, size_t column, size_t stride) {
  return load16(elements<Element>(page, token * stride + column));
}
template <>
inline V load_columns<int8_t>(const std::byte* page, size_t token, size_t column, size_t stride) {
  const auto* scales = reinterpret_cast<const uint16_t*>(page + stride * kPageTokens);
  const uint32_t bits = uint32_t{scales[(token * stride + column) / kKvBlock]} << 16;
  return V::mul(V::load_codes(page + token * stride + column), V::set(std::bit_cast<float>(bits)));
}

template <class Task>
void over_pages(const Task& task, auto over) {
  task.format == KvFormat::kF32    ? over.template operator()<float>(task)
  : task.format == KvFormat::kBf16 ? over.template operator()<uint16_t>(task)
                                   : over.template operator()<int8_t>(task);
}

template <class Element, size_t kRows, size_t kPages>
void score_pages(const AttentionTask& t, size_t row, size_t page, float* scores) {
  V acc[kRows][kPages];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < kPages; ++p) acc[r][p] = V::set(0.0f);
  }
  for (size_t d = 0; d < t.head_dim; ++d) {
    V keys[kPages];
    for (size_t p = 0; p < kPages; ++p) keys[p] = load_keys<Element>(t.key_pages[page + p], d, t.head_dim);
    for (size_t r = 0; r < kRows; ++r) {
      const V q = V::set(t.q[(row + r) * t.q_stride + d]);
      for (size_t p = 0; p < kPages; ++p) acc[r][p] = V::fma(q, keys[p], acc[r][p]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < kPages; ++p) {
      const size_t key = (page + p) * kPageTokens;
      V score = V::mul(acc[r][p], V::set(t.scale));
      if (t.bias != nullptr) score = V::add(score, V::loadu(t.bias + key - static_cast<ptrdiff_t>(row + r)));
      V::storeu(scores + r * t.score_stride + key, score);
    }
  }
}

/// The scores of rows `row` to `row` + `rows` for keys [first, the last that a row sees), to `scores`.
template <class Element>
void attention_scores(const AttentionTask& t, size_t row, size_t rows, size_t first, float* scores) {
  const auto pages_of = [&](size_t place) {
    return (t.key_count + place * t.causal_step + kPageTokens - 1) / kPageTokens;
  };
  const size_t pages = pages_of(row + rows - 1), step = rows > kKeyRows ? kSharedPages : pages;
  for (size_t begin = first / kPageTokens; begin < pages; begin += step) {
    for (size_t r = 0; r < rows;) {
      r += with_rows<kKeyRows>(rows - r, [&]<size_t kRows>() {
        const size_t seen = pages_of(row + r + kRows - 1), end = seen < begin + step ? seen : begin + step;
        for (size_t page = begin; page < end;) {
          page += with_rows<kChains / kRows>(end - page, [&]<size_t kPages>() {
            score_pages<Element, kRows, kPages>(t, row + r, page, scores + r * t.score_stride);
          });
        }
      });
    }
  }
}

/// Scores [first, end) of x become weights; `x` has room for whole vectors of 16. `sink`: a further score, which takes
/// its share of the weights; null: none.
void softmax_scores(float* x, size_t first, size_t end, const float* sink) {
  const size_t begin = first / 16 * 16, padded = (end + 15) / 16 * 16;
  for (size_t i = begin; i < first; ++i) x[i] = -std::numeric_limits<float>::infinity();
  for (size_t i = end; i < padded; ++i) x[i] = -std::numeric_limits<float>::infinity();
  V best = V::loadu(x + begin);
  for (size_t i = begin + 16; i < padded; i += 16) best = V::max(best, V::loadu(x + i));
  float most = reduce_max(best);
  if (sink != nullptr && *sink > most) most = *sink;
  const V top = V::set(most);
  V total = V::set(0.0f);
  for (size_t i = begin; i < padded; i += 16) {
    V e = exp16(V::sub(V::loadu(x + i), top));
    V::storeu(x + i, e);
    total = V::add(total, e);
  }
  float sum = reduce_add(total);
  if (sink != nullptr) {
    alignas(64) float lane[16];
    V::store(lane, exp16(V::sub(V::set(*sink), top)));
    sum += lane[0];
  }
  const V scale = V::set(1.0f / sum);
  for (size_t i = begin; i < padded; i += 16) V::storeu(x + i, V::mul(V::loadu(x + i), scale));
}

/// The keys that kRows neighbouring rows see: row r those in [first[r], end[r]). Neither falls with r.
template <size_t kRows>
struct KeyRanges {
  size_t first[kRows], end[kRows];
};

/// 16 · kBlocks columns from `d` on of the outputs of one row or two; `weight`: their scores, `out`: their outputs,
/// which hold the sums of earlier keys if `more`.
template <class Element, size_t kRows, size_t kBlocks>
void sum_values(const AttentionTask& t, const float* weight, const KeyRanges<kRows>& keys, size_t d, float* out,
                bool more) {
  static_assert(kRows <= 2);
  V acc[kRows][kBlocks];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t b = 0; b < kBlocks; ++b) {
      const size_t column = d + 16 * b;
      acc[r][b] = more ? load_some(out + r * t.out_stride + column, t.head_dim - column) : V::set(0.0f);
    }
  }
  const auto add = [&]<size_t kBegin, size_t kEnd>(size_t first, size_t end) {
    for (size_t j = first; j < end; ++j) {
      const std::byte* page = t.value_pages[j / kPageTokens];
      V value[kBlocks];
      for (size_t b = 0; b < kBlocks; ++b) {
        value[b] = load_columns<Element>(page, j % kPageTokens, d + 16 * b, t.head_dim_padded);
      }
      for (size_t r = kBegin; r < kEnd; ++r) {
        const V w = V::set(weight[r * t.score_stride + j]);
        for (size_t b = 0; b < kBlocks; ++b) acc[r][b] = V::fma(w, value[b], acc[r][b]);
      }
    }
  };
  if constexpr (kRows == 1) {
    add.template operator()<0, 1>(keys.first[0], keys.end[0]);
  } else {
    const size_t both = keys.first[1] < keys.end[0] ? keys.first[1] : keys.end[0];
    const size_t last = keys.first[1] < keys.end[0] ? keys.end[0] : keys.first[1];
    add.template operator()<0, 1>(keys.first[0], both);
    add.template operator()<0, 2>(keys.first[1], keys.end[0]);
    add.template operator()<1, 2>(last, keys.end[1]);
  }
  for (size_t r = 0; r < kRows; ++r, out += t.out_stride) {
    for (size_t b = 0; b < kBlocks; ++b) {
      const size_t column = d + 16 * b;
      store_some(out + column, t.head_dim - column, acc[r][b]);
    }
  }
}

/// The first key that a row sees whose last one is before `keys`.
size_t first_key(const AttentionTask& t, size_t keys) { return keys > t.window ? keys - t.window : 0; }

/// The keys of [begin, end) that the rows from `row` on see.
template <size_t kRows>
KeyRanges<kRows> seen_keys(const AttentionTask& t, size_t row, size_t begin, size_t end) {
  KeyRanges<kRows> keys;
  for (size_t r = 0; r < kRows; ++r) {
    const size_t last = t.key_count + (row + r) * t.causal_step, first = first_key(t, last);
    keys.first[r] = first < begin ? begin : first < end ? first : end;
    keys.end[r] = last < begin ? begin : last < end ? last : end;
  }
  return keys;
}

/// The outputs of rows `row` to `row` + `rows`, which see no key before `first`, by their weights.
template <class Element>
void attention_values(const AttentionTask& t, size_t row, size_t rows, size_t first, const float* weights) {
  const size_t keys = t.key_count + (row + rows - 1) * t.causal_step, blocks = t.head_dim_padded / 16;
  const size_t step = rows > kValueRows ? kSharedPages * kPageTokens : keys;
  for (size_t begin = first; begin < keys; begin += step) {
    for (size_t r = 0; r < rows;) {
      r += with_rows<kValueRows>(rows - r, [&]<size_t kRows>() {
        const auto seen = seen_keys<kRows>(t, row + r, begin, begin + step);
        for (size_t block = 0; block < blocks;) {
          block += with_rows<kChains / kRows>(blocks - block, [&]<size_t kBlocks>() {
            sum_values<Element, kRows, kBlocks>(t, weights + r * t.score_stride, seen, 16 * block,
                                                t.out + (row + r) * t.out_stride, begin > first);
          });
        }
      });
    }
  }
}

template <class Element>
void attention_over(const AttentionTask& t) {
  for (size_t row = 0; row < t.rows; row += kScoreRows) {
    const size_t rows = t.rows - row < kScoreRows ? t.rows - row : kScoreRows;
    const size_t first = first_key(t, t.key_count + row * t.causal_step);
    attention_scores<Element>(t, row, rows, first, t.scratch);
    for (size_t r = 0; r < rows; ++r) {
      const size_t place = row + r, end = t.key_count + place * t.causal_step;
      softmax_scores(t.scratch + r * t.score_stride, first_key(t, end), end,
                     t.sinks == nullptr ? nullptr : t.sinks + place * t.sink_step);
    }
    attention_values<Element>(t, row, rows, first, t.scratch);
  }
}

void attention(const AttentionTask& t) {
  over_pages(t, []<class Element>(const AttentionTask& task) { attention_over<Element>(task); });
}

template <class Element, size_t kRows>
void latent_scores(const LatentAttentionTask& t, size_t row, size_t keys) {
  for (size_t key = 0; key < keys; ++key) {
    const std::byte* page = t.pages[key / kPageTokens];
    V acc[kRows];
    for (size_t r = 0; r < kRows; ++r) acc[r] = V::set(0.0f);
    for (size_t d = 0; d < t.stride; d += 16) {
      const V column = load_columns<Element>(page, key % kPageTokens, d, t.stride);
      for (size_t r = 0; r < kRows; ++r) acc[r] = V::fma(V::loadu(t.q + (row + r) * t.stride + d), column, acc[r]);
    }
    for (size_t r = 0; r < kRows; ++r) t.scratch[r * t.score_stride + key] = reduce_add(acc[r]) * t.scale;
  }
}

/// 16 · kBlocks columns from `d` on of one row's output.
template <class Element, size_t kBlocks>
void sum_latent(const LatentAttentionTask& t, const float* weight, size_t keys, size_t d, float* out) {
  V acc[kBlocks];
  for (size_t b = 0; b < kBlocks; ++b) acc[b] = V::set(0.0f);
  for (size_t j = 0; j < keys; ++j) {
    const std::byte* page = t.pages[j / kPageTokens];
    const V w = V::set(weight[j]);
    for (size_t b = 0; b < kBlocks; ++b) {
      acc[b] = V::fma(w, load_columns<Element>(page, j % kPageTokens, d + 16 * b, t.stride), acc[b]);
    }
  }
  for (size_t b = 0; b < kBlocks; ++b) V::storeu(out + d + 16 * b, acc[b]);
}

template <class Element>
void latent_attention_over(const LatentAttentionTask& t) {
  const size_t blocks = (t.value_width + 15) / 16;
  for (size_t row = 0; row < t.rows; row += 4) {
    const size_t rows = t.rows - row < 4 ? t.rows - row : 4;
    const size_t most = t.key_count + (row + rows - 1) * t.causal_step;
    with_rows<4>(rows, [&]<size_t kRows>() { latent_scores<Element, kRows>(t, row, most); });
    for (size_t r = 0; r < rows; ++r) {
      const size_t keys = t.key_count + (row + r) * t.causal_step;
      float* weight = t.scratch + r * t.score_stride;
      softmax_scores(weight, 0, keys, nullptr);
      for (size_t block = 0; block < blocks;) {
        block += with_rows<kChains>(blocks - block, [&]<size_t kBlocks>() {
          sum_latent<Element, kBlocks>(t, weight, keys, 16 * block, t.out + (row + r) * t.stride);
        });
      }
    }
  }
}

void latent_attention(const LatentAttentionTask& t) {
  over_pages(t, []<class Element>(const LatentAttentionTask& task) { latent_attention_over<Element>(task); });
}

void rms_norm(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y) {
  for (size_t r = 0; r < rows; ++r, x += n, y += n) {
    V squares = V::set(0.0f);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
      V v = V::loadu(x + i);
      squares = V::fma(v, v, squares);
    }
    float sum = reduce_add(squares);
    for (size_t j = i; j < n; ++j) sum += x[j] * x[j];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(n) + epsilon);
    const V scales = V::set(scale);
    if (weight == nullptr) {
      for (i = 0; i + 16 <= n; i += 16) V::storeu(y + i, V::mul(V::loadu(x + i), scales));
      for (; i < n; ++i) y[i] = x[i] * scale;
      continue;
    }
    for (i = 0; i + 16 <= n; i += 16) {
      V::storeu(y + i, V::mul(V::mul(V::loadu(x + i), scales), V::loadu(weight + i)));
    }
    for (; i < n; ++i) y[i] = x[i] * scale * weight[i];
  }
}

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, size_t rows, size_t n,
                float* y) {
  const auto count = static_cast<float>(n);
  const size_t whole = n / 16 * 16;
  for (size_t r = 0; r < rows; ++r, x += n, y += n) {
    V total = V::set(0.0f);
    for (size_t i = 0; i < whole; i += 16) total = V::add(total, V::loadu(x + i));
    float sum = reduce_add(total);
    for (size_t i = whole; i < n; ++i) sum += x[i];
    const float mean = sum / count;
    const V means = V::set(mean);
    V squares = V::set(0.0f);
    for (size_t i = 0; i < whole; i += 16) {
      const V v = V::sub(V::loadu(x + i), means);
      squares = V::fma(v, v, squares);
    }
    float square = reduce_add(squares);
    for (size_t i = whole; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
    const float scale = 1.0f / std::sqrt(square / count + epsilon);
    const V scales = V::set(scale);
    for (size_t i = 0; i < whole; i += 16) {
      const V normal = V::mul(V::sub(V::loadu(x + i), means), scales);
      V::storeu(y + i, V::add(V::mul(normal, V::loadu(weight + i)), V::loadu(bias + i)));
    }
    for (size_t i = whole; i < n; ++i) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
  }
}

void softmax(const float* x, size_t n, float* out) {
  float top = x[0];
  for (size_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
  float sum = 0;
  for (size_t i = 0; i < n; i += 16) {
    const size_t width = n - i < 16 ? n - i : 16;
    alignas(64) float lane[16];
    for (size_t j = 0; j < 16; ++j) lane[j] = j < width ? x[i + j] : -std::numeric_limits<float>::infinity();
    V::store(lane, exp16(V::sub(V::load(lane), V::set(top))));
    for (size_t j = 0; j < width; ++j) {
      out[i + j] = lane[j];
      sum += lane[j];
    }
  }
  for (size_t i = 0; i < n; ++i) out[i] /= sum;
}

void axpy(float a, const float* x, size_t n, float* y) {
  const V va = V::set(a);
  size_t i = 0;
  // Multiply, then add: the reference scales the expert's output before it adds it to the residual.
  for (; i + 16 <= n; i += 16) V::storeu(y + i, V::add(V::loadu(y + i), V::mul(va, V::loadu(x + i))));
  for (; i < n; ++i) y[i] = y[i] + a * x[i];
}

void scale(float a, float* x, size_t n) {
  const V va = V::set(a);
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::storeu(x + i, V::mul(va, V::loadu(x + i)));
  for (; i < n; ++i) x[i] *= a;
}

void sigmoid(float* x, size_t n) {
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::storeu(x + i, sigmoid16(V::loadu(x + i)));
  if (i < n) on_lanes(x + i, n - i, sigmoid16);
}

void clip(float* x, size_t n, float limit) {
  const V high = V::set(limit), low = V::set(-limit);
  const auto clipped = [&](V v) {
    // As for ReLU: an infinity must not become a valid limit.
    return V::fma(v, V::set(0.0f), V::max(low, V::min(high, v)));
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::storeu(x + i, clipped(V::loadu(x + i)));
  if (i < n) on_lanes(x + i, n - i, clipped);
}

void soft_cap(float* x, size_t n, float limit) {
  const V limits = V::set(limit), one = V::set(1.0f);
  const auto capped = [&](V v) {
    // tanh(a) = 2 / (1 + exp(-2a)) - 1.
    const V twice = V::mul(V::set(-2.0f), V::div(v, limits));
    const V tanh = V::sub(V::div(V::set(2.0f), V::add(one, exp16(twice))), one);
    return V::fma(v, V::set(0.0f), V::mul(limits, tanh));
  };
  size_t i = 0;
  for (; i + 16 <= n; i += 16) V::storeu(x + i, capped(V::loadu(x + i)));
  if (i < n) on_lanes(x + i, n - i, capped);
}

void rotate(float* x, size_t rows, size_t stride, size_t half, const float* cosines, const float* sines) {
  for (size_t r = 0; r < rows; ++r) {
    float* left = x + r * stride;
    float* right = left + half;
    size_t j = 0;
    for (; j + 16 <= half; j += 16) {
      const V a = V::loadu(left + j), b = V::loadu(right + j);
      const V cosine = V::loadu(cosines + j), sine = V::loadu(sines + j);
      V::storeu(left + j, V::sub(V::mul(a, cosine), V::mul(b, sine)));
      V::storeu(right + j, V::add(V::mul(b, cosine), V::mul(a, sine)));
    }
    for (; j < half; ++j) {
      const float a = left[j], b = right[j];
      left[j] = a * cosines[j] - b * sines[j];
      right[j] = b * cosines[j] + a * sines[j];
    }
  }
}

void rotate_adjacent(float* x, size_t rows, size_t stride, size_t half, const float* cosines, const float* sines) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t j = 0; j < half; ++j) {
      float* pair = x + r * stride + 2 * j;
      const float a = pair[0], b = pair[1];
      pair[0] = a * cosines[j] - b * sines[j];
      pair[1] = b * cosines[j] + a * sines[j];
    }
  }
}

}  // namespace
}  // namespace sida

#include "ops/cpu/delta_impl.h"

namespace sida {
namespace {

constexpr FloatKernels kFloatKernels{
    gemm,       attention,    latent_attention, rms_norm, layer_norm,      softmax,         axpy,     scale,
    sigmoid,    clip,         soft_cap,         rotate,   rotate_adjacent, exp_nonpositive, convolve, unit_rows,
    delta_rule, gate_sigmoid, gate_silu,
};

}  // namespace
}  // namespace sida
