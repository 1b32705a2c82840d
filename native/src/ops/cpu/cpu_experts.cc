#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/cpu/choose_experts.h"
#include "ops/cpu/cpu_ops.h"

namespace sida {

const float* CpuOps::output_factors(const PanelMatrix& gate, size_t tokens, size_t of) {
  float* factors = work_.gates;
  sida::linear(pool_, work_.normed, gate.k, tokens, gate, factors, gate.n, Epilogue::kStore, {});
  if (gate.n == 2) {
    // The softmax of two numbers is the sigmoid of their difference.
    for (size_t t = 0; t < tokens; ++t) factors[t] = factors[2 * t + of] - factors[2 * t + 1 - of];
  }
  cpu_kernels().sigmoid(factors, tokens);
  return factors;
}

void CpuOps::feed_forward(const FfnWeights& weights, Activation activation, size_t tokens, float* y) {
  ExpertRows all{weights.gate, weights.up, weights.down, nullptr, tokens, y};
  const float* bias = nullptr;
  if (weights.output_gate.data != nullptr) {
    all.scales = output_factors(weights.output_gate, tokens, 1);
    // The factors scale the hidden layer, which the last bias is not part of.
    std::swap(bias, all.down.bias);
  }
  expert_ffn(pool_, {&all, 1}, work_.normed, 1, activation, work_.expert_scratch(), Epilogue::kAdd);
  if (bias == nullptr) return;
  const size_t width = spec_.width;
  for (size_t t = 0; t < tokens; ++t) cpu_kernels().axpy(all.scales[t], bias, width, y + t * width);
}

void CpuOps::scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) {
  const float* factors = output_factors(output_gate, tokens, 0);
  for (size_t choice = 0; choice < dispatch.alpha.size(); ++choice) {
    dispatch.alpha[choice] *= factors[choice / dispatch.k];
  }
}

void CpuOps::weigh_choices(const float* factors, size_t, Dispatch& dispatch) { sida::weigh_choices(factors, dispatch); }

void CpuOps::norm_for_router(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* y) {
  norm(work_.hidden, spec.input_scale ? weights.router_norm : weights.norm, spec_.norm_epsilon, tokens, spec_.width, y);
  if (spec.input_scale) scale(y, tokens * spec_.width, &*spec.input_scale);
}

void CpuOps::choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
                    Dispatch& dispatch) {
  const float* x = work_.normed;
  if (spec.input_scale) {
    // No expert of the layer has written its outputs yet.
    norm_for_router(weights, spec, tokens, work_.outputs);
    x = work_.outputs;
  }
  choose_for(x, weights, spec, tokens, logits, dispatch);
  if (weights.expert_factors != nullptr) sida::weigh_choices(weights.expert_factors, dispatch);
}

void CpuOps::choose_ahead(std::span<const LaterLayer> later, size_t tokens) {
  // No expert of the running layer has written its outputs yet.
  float* x = work_.outputs;
  for (const LaterLayer& layer : later) {
    norm_for_router(*layer.weights, *layer.router, tokens, x);
    choose_for(x, *layer.weights, *layer.router, tokens, nullptr, *layer.dispatch);
  }
}

void CpuOps::choose_for(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens,
                        float* logits, Dispatch& dispatch) {
  const PanelMatrix& router = weights.router;
  const size_t experts = router.n;
  sida::linear(pool_, x, router.k, tokens, router, work_.router, experts, Epilogue::kStore, work_.rounded);
  if (logits != nullptr) std::memcpy(logits, work_.router, tokens * experts * sizeof(float));
  dispatch.k = spec.top_k;
  dispatch.expert.resize(tokens * spec.top_k);
  dispatch.alpha.resize(tokens * spec.top_k);
  share(tokens, tokens * experts * spec.top_k, [&](size_t begin, size_t end) {
    for (size_t token = begin; token < end; ++token) {
      const size_t choice = token * spec.top_k;
      float* scratch = work_.router_scratch + token * experts;
      choose_experts({work_.router + token * experts, experts, weights.router_correction, scratch}, spec,
                     dispatch.expert.data() + choice, dispatch.alpha.data() + choice);
    }
  });
}

void CpuOps::experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
                     const Dispatch& dispatch) {
  const BlockLayout& matrices = layout.layers[layer];
  group_.clear();
  for (const ExpertBlock& expert : experts) {
    const size_t begin = dispatch.begin[expert.index], rows = dispatch.begin[expert.index + 1] - begin;
    if (rows == 0) continue;
    group_.push_back({matrices.matrix(expert.block, Projection::kGate), matrices.matrix(expert.block, Projection::kUp),
                      matrices.matrix(expert.block, Projection::kDown), dispatch.order.data() + begin, rows,
                      work_.outputs + begin * spec_.width});
  }
  expert_ffn(pool_, group_, work_.normed, dispatch.k, layout.shape.activation, work_.expert_scratch());
}

void CpuOps::put_expert_outputs(const float* outputs, size_t first, size_t rows) {
  std::memcpy(work_.outputs + first * spec_.width, outputs, rows * spec_.width * sizeof(float));
}

void CpuOps::combine(const Dispatch& dispatch, size_t, float* y) {
  const size_t width = spec_.width, lines = (width + 15) / 16;
  // Sums are in the order of experts, because the order in which experts become resident varies. Threads share the
  // columns, so that a token with several experts keeps that order too.
  const size_t chunks = dispatch.order.size() * width < kInlineFloats ? 1 : std::min(lines, pool_.threads());
  pool_.parallel_for(chunks, [&](size_t chunk, size_t) {
    const size_t begin = lines * chunk / chunks * 16;
    const size_t end = std::min(width, lines * (chunk + 1) / chunks * 16);
    for (size_t i = 0; i < dispatch.order.size(); ++i) {
      const size_t choice = dispatch.order[i];
      cpu_kernels().axpy(dispatch.alpha[choice], work_.outputs + i * width + begin, end - begin,
                         y + choice / dispatch.k * width + begin);
    }
  });
}

}  // namespace sida
