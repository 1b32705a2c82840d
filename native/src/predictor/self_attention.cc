#include "predictor/self_attention.h"

#include <algorithm>
#include <cmath>

#include "ops/cpu/kernels.h"
#include "predictor/softmax.h"
#include "predictor/sparsemax.h"

namespace sida {
namespace {

float score_scale(size_t hidden) { return 1.0f / std::sqrt(static_cast<float>(hidden)); }

// On entry weights (keys) are the products. out (h) = y[row] + weights · y, where zero weights are skipped.
void attend(const float* y, size_t row, size_t keys, size_t hidden, WeightFunction form, float* weights, float* out) {
  const float scale = score_scale(hidden);
  for (size_t j = 0; j < keys; ++j) weights[j] *= scale;
  form == WeightFunction::kSoftmax ? static_cast<void>(softmax(weights, keys, weights))
                                   : sparsemax(weights, keys, weights);
  std::copy_n(y + row * hidden, hidden, out);
  const auto axpy = cpu_kernels().axpy;
  for (size_t j = 0; j < keys; ++j) {
    if (weights[j] != 0) axpy(weights[j], y + j * hidden, hidden, out);
  }
}

// Queries of one tile.
constexpr size_t kTileRows = 64;

// Rows [first, first + rows) of the attention; weights (rows, tokens), out (tokens, h).
void attend_rows(const float* y, const PanelMatrix& keys, SelfAttentionForm form, size_t first, size_t rows,
                 float* weights, float* out) {
  const size_t tokens = keys.n;
  const size_t hidden = keys.k;
  multiply(y + first * hidden, hidden, rows, keys, weights, tokens, Epilogue::kStore);
  for (size_t row = first; row < first + rows; ++row, weights += tokens) {
    const size_t seen = form.causal ? row + 1 : tokens;
    std::fill(weights + seen, weights + tokens, 0.0f);
    attend(y, row, seen, hidden, form.weights, weights, out + row * hidden);
  }
}

}  // namespace

void self_attention_forward(const float* y, size_t tokens, size_t hidden, SelfAttentionForm form, float* weights,
                            float* out, SelfAttentionScratch* scratch) {
  if (tokens == 0) return;
  const PanelMatrix keys = pack_transposed(y, tokens, hidden, &scratch->panels);
  attend_rows(y, keys, form, 0, tokens, weights, out);
}

void self_attention(const float* y, size_t tokens, size_t hidden, SelfAttentionForm form, float* out,
                    SelfAttentionScratch* scratch) {
  if (tokens == 0) return;
  const PanelMatrix keys = pack_transposed(y, tokens, hidden, &scratch->panels);
  float* weights = grow(&scratch->scores, std::min(kTileRows, tokens) * tokens);
  for (size_t first = 0; first < tokens; first += kTileRows) {
    attend_rows(y, keys, form, first, std::min(kTileRows, tokens - first), weights, out);
  }
}

void self_attention_backward(const float* y, const float* weights, const float* dout, size_t tokens, size_t hidden,
                             WeightFunction form, float* dy, SelfAttentionScratch* scratch) {
  if (tokens == 0) return;
  const float scale = score_scale(hidden);
  const auto axpy = cpu_kernels().axpy;
  float* scores = grow(&scratch->scores, tokens * tokens);
  const PanelMatrix values = pack_transposed(y, tokens, hidden, &scratch->panels);
  multiply(dout, hidden, tokens, values, scores, tokens, Epilogue::kStore);
  std::copy_n(dout, tokens * hidden, dy);
  for (size_t row = 0; row < tokens; ++row) {
    const float* p = weights + row * tokens;
    float* dscore = scores + row * tokens;
    // Keys that a causal row does not see have a weight of zero, and so a slope of zero in both forms.
    form == WeightFunction::kSoftmax ? softmax_backward(p, dscore, tokens, dscore)
                                     : sparsemax_backward(p, dscore, tokens, dscore);
    for (size_t j = 0; j < tokens; ++j) {
      if (p[j] == 0) continue;
      const float d = scale * dscore[j];
      axpy(p[j], dout + row * hidden, hidden, dy + j * hidden);  // as value
      axpy(d, y + j * hidden, hidden, dy + row * hidden);        // as query
      axpy(d, y + row * hidden, hidden, dy + j * hidden);        // as key
    }
  }
}

void self_attention_step(const float* y, const PanelMatrix& panels, WeightFunction form, float* weights, float* out) {
  const size_t row = panels.n - 1;
  multiply(y + row * panels.k, panels.k, 1, panels, weights, panels.n, Epilogue::kStore);
  attend(y, row, panels.n, panels.k, form, weights, out);
}

}  // namespace sida
