#include "predictor/residual_block.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.h"

namespace sida {
namespace {

constexpr float kEpsilon = 1e-6f;
// 1 / sqrt(kHeadWidth), exact.
constexpr float kQueryScale = 0.25f;
static_assert(kQueryScale * kQueryScale * kHeadWidth == 1.0f);

void project(const ResidualBlock& block, size_t rows, const float* x, BlockActivations* act) {
  const size_t h = block.hidden;
  std::copy_n(x, rows * h, grow(&act->input, rows * h));
  float* normed = grow(&act->attention_normed, rows * h);
  rms_norm_rows(x, block.attention_norm.data(), rows, h, normed);
  float* qkv = grow(&act->qkv, rows * 3 * h);
  multiply(normed, h, rows, block.qkv, qkv, 3 * h, Epilogue::kStore);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < h; ++i) qkv[r * 3 * h + i] *= kQueryScale;
  }
}

// The rest of the block, from act->attended to y.
void finish(const ResidualBlock& block, size_t rows, float* x, BlockActivations* act) {
  const size_t h = block.hidden;
  multiply(act->attended.data(), h, rows, block.attention_out, x, h, Epilogue::kAdd);
  std::copy_n(x, rows * h, grow(&act->middle, rows * h));
  float* normed = grow(&act->ffn_normed, rows * h);
  rms_norm_rows(x, block.ffn_norm.data(), rows, h, normed);
  float* hidden = grow(&act->ffn_hidden, rows * 2 * h);
  multiply(normed, h, rows, block.ffn_up, hidden, 2 * h, Epilogue::kStore);
  for (size_t r = 0; r < rows; ++r) {
    float* row = hidden + r * 2 * h;
    for (size_t i = 0; i < 2 * h; ++i) row[i] = std::max(row[i] + block.ffn_bias[i], 0.0f);
  }
  multiply(hidden, 2 * h, rows, block.ffn_down, x, h, Epilogue::kAdd);
}

// Grows by more than needed, because a stepped sequence needs one position more each time.
void reach(const ResidualBlock& block, size_t longest, PositionDiagonals* bias) {
  if (bias->longest() < longest) bias->assign(block.position_table.data(), block.heads(), 2 * longest);
}

size_t bytes_of(std::initializer_list<const AlignedFloats*> buffers) {
  size_t floats = 0;
  for (const AlignedFloats* buffer : buffers) floats += buffer->capacity();
  return floats * sizeof(float);
}

}  // namespace

size_t BlockActivations::bytes() const {
  return bias.bytes() + bytes_of({&input, &attention_normed, &qkv, &attended, &middle, &ffn_normed, &ffn_hidden});
}

size_t BlockScratch::bytes() const {
  return pages.bytes() + attention.bytes() + bytes_of({&wide, &narrow, &product.transposed, &product.panels});
}

void rms_norm_rows(const float* x, const float* scale, size_t rows, size_t n, float* y) {
  cpu_kernels().rms_norm(x, scale, kEpsilon, rows, n, y);
}

void rms_norm_backward(const float* x, const float* scale, const float* dy, size_t rows, size_t n, float* dx,
                       float* dgain) {
  for (size_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    float squares = 0;
    float product = 0;
    for (size_t i = 0; i < n; ++i) {
      squares += x[i] * x[i];
      product += x[i] * dy[i] * scale[i];
    }
    const auto count = static_cast<float>(n);
    const float inverse = 1.0f / std::sqrt(squares / count + kEpsilon);
    const float pull = product * inverse * inverse * inverse / count;
    for (size_t i = 0; i < n; ++i) {
      dx[i] += dy[i] * scale[i] * inverse - x[i] * pull;
      dgain[i] += dy[i] * x[i] * inverse;
    }
  }
}

void residual_block_forward(const ResidualBlock& block, std::span<const uint32_t> lengths, bool causal, float* x,
                            BlockActivations* act, BlockScratch* scratch) {
  const size_t h = block.hidden;
  size_t rows = 0;
  size_t longest = 0;
  for (const size_t length : lengths) {
    rows += length;
    longest = std::max(longest, length);
  }
  project(block, rows, x, act);
  act->bias.assign(block.position_table.data(), block.heads(), longest);
  const float* qkv = act->qkv.data();
  float* attended = grow(&act->attended, rows * h);
  for (const size_t length : lengths) {
    scratch->pages.begin(block.heads());
    for (size_t t = 0; t < length; ++t) {
      scratch->pages.append(qkv + t * 3 * h + h, qkv + t * 3 * h + 2 * h);
    }
    if (length > 0) {
      head_attention(scratch->pages, act->bias, causal, qkv, 3 * h, 0, length, attended, &scratch->attention);
    }
    qkv += length * 3 * h;
    attended += length * h;
  }
  finish(block, rows, x, act);
}

void residual_block_step(const ResidualBlock& block, std::span<HeadPages* const> pages, float* x, BlockActivations* act,
                         BlockScratch* scratch) {
  const size_t h = block.hidden;
  project(block, pages.size(), x, act);
  float* attended = grow(&act->attended, pages.size() * h);
  for (size_t s = 0; s < pages.size(); ++s) {
    const float* qkv = act->qkv.data() + s * 3 * h;
    const size_t position = pages[s]->length();
    pages[s]->append(qkv + h, qkv + 2 * h);
    reach(block, position + 1, &act->bias);
    head_attention(*pages[s], act->bias, true, qkv, 3 * h, position, 1, attended + s * h, &scratch->attention);
  }
  finish(block, pages.size(), x, act);
}

void residual_block_backward(const ResidualBlock& block, std::span<const uint32_t> lengths, bool causal,
                             const BlockActivations& act, const BlockGradients& gradients, float* dy,
                             BlockScratch* scratch) {
  const size_t h = block.hidden;
  size_t rows = 0;
  for (const size_t length : lengths) rows += length;
  float* wide = grow(&scratch->wide, rows * 3 * h);
  float* narrow = grow(&scratch->narrow, rows * h);

  // Feed-forward.
  add_weight_gradients(dy, h, rows, h, {{act.ffn_hidden.data(), 2 * h, 2 * h, gradients.ffn_down}}, &scratch->product);
  multiply(dy, h, rows, block.ffn_down_back, wide, 2 * h, Epilogue::kStore);
  for (size_t i = 0; i < rows * 2 * h; ++i) wide[i] = act.ffn_hidden[i] > 0 ? wide[i] : 0.0f;
  add_weight_gradients(wide, 2 * h, rows, 2 * h, {{act.ffn_normed.data(), h, h, gradients.ffn_up}}, &scratch->product);
  add_rows(wide, 2 * h, rows, 2 * h, gradients.ffn_bias);
  multiply(wide, 2 * h, rows, block.ffn_up_back, narrow, h, Epilogue::kStore);
  rms_norm_backward(act.middle.data(), block.ffn_norm.data(), narrow, rows, h, dy, gradients.ffn_norm);

  // Attention.
  add_weight_gradients(dy, h, rows, h, {{act.attended.data(), h, h, gradients.attention_out}}, &scratch->product);
  multiply(dy, h, rows, block.attention_out_back, narrow, h, Epilogue::kStore);
  size_t row = 0;
  for (const size_t length : lengths) {
    head_attention_backward(act.qkv.data() + row * 3 * h, act.bias, causal, length, block.heads(), narrow + row * h,
                            wide + row * 3 * h, gradients.position_table, &scratch->attention);
    row += length;
  }
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < h; ++i) wide[r * 3 * h + i] *= kQueryScale;
  }
  add_weight_gradients(wide, 3 * h, rows, 3 * h, {{act.attention_normed.data(), h, h, gradients.qkv}},
                       &scratch->product);
  multiply(wide, 3 * h, rows, block.qkv_back, narrow, h, Epilogue::kStore);
  rms_norm_backward(act.input.data(), block.attention_norm.data(), narrow, rows, h, dy, gradients.attention_norm);
}

}  // namespace sida
