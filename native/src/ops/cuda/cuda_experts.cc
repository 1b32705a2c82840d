// The MoE layers of CudaOps.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cpu/choose_experts.h"
#include "ops/cpu/kernels.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/routing.h"
#include "ops/cuda/rows.h"

namespace sida {
namespace {

bool chosen_by_kernel(const RouterSpec& spec) { return spec.scores == RouterScores::kSoftmax && !adjusts_choice(spec); }

}  // namespace

void CudaOps::choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
                     Dispatch& dispatch) {
  const float* x = work_.activations.normed;
  if (spec.input_scale) {
    // No expert of the layer has written its outputs yet.
    norm_for_router(weights, spec, tokens, work_.outputs);
    x = work_.outputs;
  }
  if (!chosen_by_kernel(spec)) {
    product(x, tokens, weights.router, work_.router, Epilogue::kStore);
    return choose_on_host(weights, spec, tokens, logits, dispatch);
  }
  queue_choices(x, weights.router, spec, tokens, 0);
  if (logits != nullptr) download(logits, work_.router, tokens * weights.router.n * sizeof(float));
  cuda_check_launches("router");
  wait();
  read_choices(spec, tokens, 0, dispatch);
}

void CudaOps::queue_ahead(std::span<const LaterLayer> later, size_t tokens) {
  later = later.first(std::min(later.size(), kMostAhead));
  for (size_t place = 0; place < later.size(); ++place) {
    const auto& [weights, router, dispatch] = later[place];
    if (!chosen_by_kernel(*router)) continue;
    // No expert of the running layer has written its outputs yet.
    norm_for_router(*weights, *router, tokens, work_.outputs);
    queue_choices(work_.outputs, weights->router, *router, tokens, place + 1);
  }
  ahead_queued_ = !later.empty();
}

void CudaOps::choose_ahead(std::span<const LaterLayer> later, size_t tokens) {
  for (; later.size() > kMostAhead; later = later.subspan(kMostAhead)) {
    choose_ahead(later.first(kMostAhead), tokens);
  }
  if (later.empty()) return;
  if (!ahead_queued_) {
    queue_ahead(later, tokens);
    cuda_check_launches("routers of later layers");
    wait();
  }
  ahead_queued_ = false;
  for (size_t place = 0; place < later.size(); ++place) {
    const auto& [weights, router, dispatch] = later[place];
    if (chosen_by_kernel(*router)) {
      read_choices(*router, tokens, place + 1, *dispatch);
      continue;
    }
    norm_for_router(*weights, *router, tokens, work_.outputs);
    product(work_.outputs, tokens, weights->router, work_.router, Epilogue::kStore);
    choose_on_host(*weights, *router, tokens, nullptr, *dispatch);
  }
}

void CudaOps::norm_for_router(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* y) {
  const NormWeights& own = spec.input_scale ? weights.router_norm : weights.norm;
  norm(work_.activations.hidden, own, spec_.norm_epsilon, tokens, spec_.width, y);
  if (spec.input_scale) cuda::scale(y, tokens * spec_.width, *spec.input_scale, nullptr, stream());
}

void CudaOps::queue_choices(const float* x, const PanelMatrix& router, const RouterSpec& spec, size_t tokens,
                            size_t place) {
  auto* alpha = reinterpret_cast<float*>(place_of_choices(place));
  auto* expert = reinterpret_cast<uint16_t*>(alpha + tokens * spec.top_k);
  const cuda::TopChoices top{spec.top_k, spec.normalized, static_cast<float>(spec.scale)};
  const cuda::Product logits{x, nullptr, 1, static_cast<uint32_t>(tokens), router, work_.router};
  cuda::gemm(logits, Epilogue::kStore, {work_.arrived, nullptr, {}, top, expert, alpha}, stream());
}

void CudaOps::read_choices(const RouterSpec& spec, size_t tokens, size_t place, Dispatch& dispatch) const {
  const size_t count = tokens * spec.top_k;
  const auto* alphas = reinterpret_cast<const float*>(place_of_choices(place));
  const auto* experts = reinterpret_cast<const uint16_t*>(alphas + count);
  dispatch.k = spec.top_k;
  dispatch.expert.assign(experts, experts + count);
  dispatch.alpha.assign(alphas, alphas + count);
}

void CudaOps::choose_on_host(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
                             Dispatch& dispatch) {
  const size_t experts = weights.router.n;
  router_logits_.resize(tokens * experts);
  router_scratch_.resize(experts);
  download(router_logits_.data(), work_.router, tokens * experts * sizeof(float));
  const float* correction =
      weights.router_correction == nullptr ? nullptr : on_host(weights.router_correction, experts);
  cuda_check_launches("router");
  wait();
  if (logits != nullptr) std::copy(router_logits_.begin(), router_logits_.end(), logits);
  dispatch.k = spec.top_k;
  dispatch.expert.resize(tokens * spec.top_k);
  dispatch.alpha.resize(tokens * spec.top_k);
  for (size_t token = 0; token < tokens; ++token) {
    choose_experts({router_logits_.data() + token * experts, experts, correction, router_scratch_.data()}, spec,
                   dispatch.expert.data() + token * spec.top_k, dispatch.alpha.data() + token * spec.top_k);
  }
}

const float* CudaOps::on_host(const float* numbers, size_t count) {
  std::vector<float>& copy = on_host_[numbers];
  if (copy.empty()) {
    copy.resize(count);
    download(copy.data(), numbers, count * sizeof(float));
  }
  return copy.data();
}

void CudaOps::weigh_choices(const float* factors, size_t experts, Dispatch& dispatch) {
  const float* copy = on_host(factors, experts);
  wait();
  sida::weigh_choices(copy, dispatch);
}

void CudaOps::scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) {
  product(work_.activations.normed, tokens, output_gate, work_.gates, Epilogue::kStore);
  std::vector<float>& gates = router_logits_;
  gates.resize(2 * tokens);
  download(gates.data(), work_.gates, gates.size() * sizeof(float));
  cuda_check_launches("output gates");
  wait();
  for (size_t t = 0; t < tokens; ++t) cpu_kernels().softmax(&gates[2 * t], 2, &gates[2 * t]);
  for (size_t choice = 0; choice < dispatch.alpha.size(); ++choice) {
    dispatch.alpha[choice] *= gates[choice / dispatch.k * 2];
  }
}

void CudaOps::take_choices(const Dispatch& dispatch, size_t tokens) {
  const size_t k = dispatch.k, count = dispatch.order.size();
  // One copy for all three.
  choices_.assign(count + 2 * tokens * k, cuda::kNoPosition);
  std::copy(dispatch.order.begin(), dispatch.order.end(), choices_.begin());
  uint32_t* positions = choices_.data() + count;
  uint32_t* alphas = positions + tokens * k;
  // Choices are ordered by expert, also within a token, so that sums do not depend on which expert became resident
  // first.
  for (uint32_t position = 0; position < count; ++position) {
    const size_t choice = dispatch.order[position];
    size_t next = choice / k * k;
    while (positions[next] != cuda::kNoPosition) ++next;
    positions[next] = position;
    alphas[next] = std::bit_cast<uint32_t>(dispatch.alpha[choice]);
  }
  order_ = uploads_.put(std::span<const uint32_t>(choices_));
  positions_ = order_ + count;
  alpha_ = reinterpret_cast<const float*>(positions_ + tokens * k);
}

void CudaOps::experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
                      const Dispatch& dispatch) {
  for (size_t begin = 0; begin < experts.size(); begin += cuda::kMaxProducts) {
    const size_t count = std::min(cuda::kMaxProducts, experts.size() - begin);
    run_experts(layout, layer, experts.subspan(begin, count), dispatch);
  }
}

void CudaOps::run_experts(const ExpertLayout& layout, size_t layer, std::span<const ExpertBlock> experts,
                          const Dispatch& dispatch) {
  const BlockLayout& matrices = layout.layers[layer];
  const size_t width = layout.shape.width, hidden = layout.shape.hidden;
  for (const ExpertBlock& expert : experts) device_.compute_after_fill(expert.block);
  products_.clear();
  for (const auto& [index, block] : experts) {
    const uint32_t at = dispatch.begin[index], rows = dispatch.begin[index + 1] - at;
    products_.push_back({work_.activations.normed, order_ + at, static_cast<uint32_t>(dispatch.k), rows,
                         matrices.matrix(block, Projection::kUp), work_.up + at * hidden,
                         matrices.matrix(block, Projection::kGate)});
  }
  cuda::gemm(products_, {width, hidden, activation_epilogue(layout.shape.activation)}, stream());
  for (size_t i = 0; i < experts.size(); ++i) {
    const uint32_t at = dispatch.begin[experts[i].index];
    products_[i] = {products_[i].y,
                    nullptr,
                    1,
                    products_[i].rows,
                    matrices.matrix(experts[i].block, Projection::kDown),
                    work_.outputs + at * width};
  }
  cuda::gemm(products_, {hidden, width, Epilogue::kStore}, stream());
  const uint64_t mark = device_.mark();
  for (const ExpertBlock& expert : experts) device_.used(expert.block, mark);
}

void CudaOps::combine(const Dispatch& dispatch, size_t tokens, float* y) {
  if (y == work_.activations.hidden) {
    launch_held({}, nullptr);
    held_ = HeldSum{positions_, alpha_, tokens, dispatch.k};
    return;
  }
  cuda::add_expert_outputs(work_.outputs, positions_, alpha_, tokens, dispatch.k, spec_.width, y, stream());
}

}  // namespace sida
