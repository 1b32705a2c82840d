#include "predictor/head_attention.h"

#include <algorithm>

#include "ops/cpu/kernels.h"
#include "spec/relative_position.h"

namespace sida {
namespace {

constexpr size_t kPageFloats = kHeadWidth * kPageTokens;
// Kernels read whole vectors past the last bias.
constexpr size_t kSlack = 32;

void copy_head(const float* rows, size_t stride, size_t tokens, float* out) {
  for (size_t t = 0; t < tokens; ++t) std::copy_n(rows + t * stride, kHeadWidth, out + t * kHeadWidth);
}

void put_head(const float* rows, size_t tokens, float* out, size_t stride) {
  for (size_t t = 0; t < tokens; ++t) std::copy_n(rows + t * kHeadWidth, kHeadWidth, out + t * stride);
}

// p (tokens, tokens) = the attention weights of one head.
void weights_of(const float* q, const float* k, const float* bias, bool causal, size_t tokens, float* p,
                AlignedFloats* panels) {
  multiply(q, kHeadWidth, tokens, pack_transposed(k, tokens, kHeadWidth, panels), p, tokens, Epilogue::kStore);
  for (size_t i = 0; i < tokens; ++i) {
    float* row = p + i * tokens;
    const size_t seen = causal ? i + 1 : tokens;
    for (size_t j = 0; j < seen; ++j) row[j] += bias[static_cast<ptrdiff_t>(j) - static_cast<ptrdiff_t>(i)];
    cpu_kernels().softmax(row, seen, row);
    std::fill(row + seen, row + tokens, 0.0f);
  }
}

}  // namespace

void HeadPages::begin(size_t heads) {
  heads_ = heads;
  length_ = 0;
  keys_.clear();
  values_.clear();
}

size_t HeadPages::at(size_t page, size_t head) const { return (page * heads_ + head) * kPageFloats; }

void HeadPages::append(const float* key, const float* value) {
  const size_t page = length_ / kPageTokens;
  const size_t slot = length_ % kPageTokens;
  if (slot == 0) {
    keys_.resize((page + 1) * heads_ * kPageFloats);
    values_.resize((page + 1) * heads_ * kPageFloats);
  }
  for (size_t head = 0; head < heads_; ++head) {
    float* keys = keys_.data() + at(page, head);
    float* values = values_.data() + at(page, head) + slot * kHeadWidth;
    for (size_t d = 0; d < kHeadWidth; ++d) keys[d * kPageTokens + slot] = key[head * kHeadWidth + d];
    std::copy_n(value + head * kHeadWidth, kHeadWidth, values);
  }
  ++length_;
}

void PositionDiagonals::assign(const float* table, size_t heads, size_t longest) {
  const auto reach = static_cast<ptrdiff_t>(longest);
  if (longest != longest_) {
    buckets_.resize(2 * longest);
    for (ptrdiff_t distance = 1 - reach; distance < reach; ++distance) {
      buckets_[static_cast<size_t>(distance + reach)] = static_cast<uint8_t>(
          relative_position_bucket(static_cast<int>(distance), true, kPositionBuckets, kBucketDistance));
    }
  }
  longest_ = longest;
  stride_ = 2 * longest + kSlack;
  values_.assign(heads * stride_, 0.0f);
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 1; i < 2 * longest; ++i) {
      values_[h * stride_ + i] = table[h * kPositionBuckets + buckets_[i]];
    }
  }
}

size_t HeadAttentionScratch::bytes() const {
  size_t floats = 0;
  for (const AlignedFloats* buffer :
       {&scores, &probabilities, &slopes, &rows, &panels, &product.transposed, &product.panels}) {
    floats += buffer->capacity();
  }
  return floats * sizeof(float);
}

void head_attention(const HeadPages& pages, const PositionDiagonals& bias, bool causal, const float* q, size_t q_stride,
                    size_t first, size_t rows, float* out, HeadAttentionScratch* scratch) {
  const size_t page_count = (pages.length() + kPageTokens - 1) / kPageTokens;
  const size_t score_stride = page_count * kPageTokens;
  AttentionTask task{};
  task.q_stride = q_stride;
  task.rows = rows;
  task.head_dim = kHeadWidth;
  task.head_dim_padded = kHeadWidth;
  task.scale = 1;
  task.key_count = causal ? first + 1 : pages.length();
  task.causal_step = causal ? 1 : 0;
  task.out_stride = pages.heads() * kHeadWidth;
  task.scratch = grow(&scratch->scores, std::min(rows, kScoreRows) * score_stride);
  task.score_stride = score_stride;
  scratch->key_pages.resize(page_count);
  scratch->value_pages.resize(page_count);
  task.key_pages = scratch->key_pages.data();
  task.value_pages = scratch->value_pages.data();
  for (size_t head = 0; head < pages.heads(); ++head) {
    for (size_t page = 0; page < page_count; ++page) {
      scratch->key_pages[page] = reinterpret_cast<const std::byte*>(pages.key_page(page, head));
      scratch->value_pages[page] = reinterpret_cast<const std::byte*>(pages.value_page(page, head));
    }
    task.q = q + head * kHeadWidth;
    task.out = out + head * kHeadWidth;
    task.bias = bias.head(head) - first;
    cpu_kernels().attention(task);
  }
}

void head_attention_backward(const float* qkv, const PositionDiagonals& bias, bool causal, size_t tokens, size_t heads,
                             const float* dout, float* dqkv, float* dtable, HeadAttentionScratch* scratch) {
  const size_t width = heads * kHeadWidth;
  const size_t size = tokens * kHeadWidth;
  float* q = grow(&scratch->rows, 7 * size);
  float* k = q + size;
  float* v = k + size;
  float* d = v + size;
  float* dq = d + size;
  float* dk = dq + size;
  float* dv = dk + size;
  float* p = grow(&scratch->probabilities, tokens * tokens);
  float* ds = grow(&scratch->slopes, tokens * tokens);
  for (size_t head = 0; head < heads; ++head) {
    const float* from = qkv + head * kHeadWidth;
    float* to = dqkv + head * kHeadWidth;
    float* table = dtable + head * kPositionBuckets;
    copy_head(from, 3 * width, tokens, q);
    copy_head(from + width, 3 * width, tokens, k);
    copy_head(from + 2 * width, 3 * width, tokens, v);
    copy_head(dout + head * kHeadWidth, width, tokens, d);
    weights_of(q, k, bias.head(head), causal, tokens, p, &scratch->panels);
    multiply(d, kHeadWidth, tokens, pack_transposed(v, tokens, kHeadWidth, &scratch->panels), ds, tokens,
             Epilogue::kStore);
    for (size_t i = 0; i < tokens; ++i) {
      const float* weights = p + i * tokens;
      float* slopes = ds + i * tokens;
      float mean = 0;
      for (size_t j = 0; j < tokens; ++j) mean += weights[j] * slopes[j];
      for (size_t j = 0; j < tokens; ++j) {
        slopes[j] = weights[j] * (slopes[j] - mean);
        if (weights[j] != 0) table[bias.buckets()[static_cast<ptrdiff_t>(j) - static_cast<ptrdiff_t>(i)]] += slopes[j];
      }
    }
    std::fill_n(dk, 2 * size, 0.0f);
    add_weight_gradients(p, tokens, tokens, tokens, {{d, kHeadWidth, kHeadWidth, dv}}, &scratch->product);
    add_weight_gradients(ds, tokens, tokens, tokens, {{q, kHeadWidth, kHeadWidth, dk}}, &scratch->product);
    multiply(ds, tokens, tokens, pack_rows(k, kHeadWidth, tokens, kHeadWidth, &scratch->panels), dq, kHeadWidth,
             Epilogue::kStore);
    put_head(dq, tokens, to, 3 * width);
    put_head(dk, tokens, to + width, 3 * width);
    put_head(dv, tokens, to + 2 * width, 3 * width);
  }
}

}  // namespace sida
