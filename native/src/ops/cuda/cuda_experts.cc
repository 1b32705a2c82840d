// The MoE layers of CudaOps.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "ops/cpu/kernels.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/routing.h"
#include "ops/cuda/rows.h"

namespace sida {

const float* CudaOps::router_rows(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens) {
  if (!spec.input_scale) return work_.activations.normed;
  // No expert of the layer has written its outputs yet.
  norm_for_router(weights, spec, tokens, work_.outputs);
  return work_.outputs;
}

void CudaOps::choose(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* logits,
                     Dispatch& dispatch) {
  const float* x = router_rows(weights, spec, tokens);
  queue_choices(x, weights, spec, tokens, 0);
  if (logits != nullptr) download(logits, work_.router, tokens * weights.router.n * sizeof(float));
  cuda_check_launches("router");
  wait();
  read_choices(spec, tokens, 0, dispatch);
}

void CudaOps::queue_ahead(std::span<const LaterLayer> later, size_t tokens) {
  later = later.first(std::min(later.size(), kMostAhead));
  for (size_t place = 0; place < later.size(); ++place) {
    const auto& [weights, router, dispatch] = later[place];
    // No expert of the running layer has written its outputs yet.
    norm_for_router(*weights, *router, tokens, work_.outputs);
    queue_choices(work_.outputs, *weights, *router, tokens, place + 1);
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
    read_choices(*later[place].router, tokens, place + 1, *later[place].dispatch);
  }
}

void CudaOps::norm_for_router(const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens, float* y) {
  const NormWeights& own = spec.input_scale ? weights.router_norm : weights.norm;
  norm(work_.activations.hidden, own, spec_.norm_epsilon, tokens, spec_.width, y);
  if (spec.input_scale) cuda::scale(y, tokens * spec_.width, *spec.input_scale, nullptr, stream());
}

void CudaOps::queue_choices(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens,
                            size_t place) {
  auto* alpha = reinterpret_cast<float*>(place_of_choices(place));
  route(x, weights, spec, tokens, reinterpret_cast<uint16_t*>(alpha + tokens * spec.top_k), alpha);
}

void CudaOps::route(const float* x, const FeedForwardWeights& weights, const RouterSpec& spec, size_t tokens,
                    uint16_t* expert, float* alpha) {
  const PanelMatrix& w = weights.router;
  const cuda::Router router{spec, weights.router_correction, weights.expert_factors};
  if (rounds(w.format)) {
    product(x, tokens, w, work_.router, Epilogue::kStore);
    return cuda::choose(work_.router, tokens, w.n, router, expert, alpha, stream());
  }
  const cuda::Product logits{x, nullptr, 1, static_cast<uint32_t>(tokens), w, work_.router};
  cuda::gemm(logits, Epilogue::kStore, {work_.arrived, nullptr, {}, router, expert, alpha}, stream());
}

void CudaOps::read_choices(const RouterSpec& spec, size_t tokens, size_t place, Dispatch& dispatch) const {
  const size_t count = tokens * spec.top_k;
  const auto* alphas = reinterpret_cast<const float*>(place_of_choices(place));
  const auto* experts = reinterpret_cast<const uint16_t*>(alphas + count);
  dispatch.k = spec.top_k;
  dispatch.expert.assign(experts, experts + count);
  dispatch.alpha.assign(alphas, alphas + count);
}

void CudaOps::weigh_choices(const float* factors, size_t experts, Dispatch& dispatch) {
  std::vector<float>& copy = expert_factors_[factors];
  if (copy.empty()) {
    copy.resize(experts);
    download(copy.data(), factors, experts * sizeof(float));
    wait();
  }
  sida::weigh_choices(copy.data(), dispatch);
}

void CudaOps::scale_choices(const PanelMatrix& output_gate, size_t tokens, Dispatch& dispatch) {
  output_gates(output_gate, tokens);
  std::vector<float>& gates = gates_;
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
  normed_rounded_ = false;
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
  const WeightFormat up = matrices.format(Projection::kUp);
  std::optional<cuda::RoundedRows> normed_codes, hidden_codes;
  // As on the CPU, where gate and up share the rounded rows.
  const bool alike = !gated(layout.shape.activation) || matrices.format(Projection::kGate) == up;
  if (alike && rounds(up)) normed_codes = rounded_normed();
  for (const ExpertBlock& expert : experts) device_.compute_after_fill(expert.block);
  // The launches of rounded rows have no gates.
  const bool gates_apart = gated(layout.shape.activation) && (rounds(up) || rounds(matrices.format(Projection::kGate)));
  const auto from_normed = [&](Projection projection, Epilogue epilogue, bool with_gate) {
    products_.clear();
    for (const auto& [index, block] : experts) {
      const uint32_t at = dispatch.begin[index], rows = dispatch.begin[index + 1] - at;
      products_.push_back({work_.activations.normed, order_ + at, static_cast<uint32_t>(dispatch.k), rows,
                           matrices.matrix(block, projection), work_.up + at * hidden,
                           with_gate ? matrices.matrix(block, Projection::kGate) : PanelMatrix{}});
    }
    multiply(work_.activations.normed, normed_codes ? &*normed_codes : nullptr, {width, hidden, epilogue});
  };
  if (gates_apart) from_normed(Projection::kGate, Epilogue::kStore, false);
  from_normed(Projection::kUp, activation_epilogue(layout.shape.activation), !gates_apart);
  for (size_t i = 0; i < experts.size(); ++i) {
    const uint32_t at = dispatch.begin[experts[i].index];
    products_[i] = {products_[i].y,
                    nullptr,
                    1,
                    products_[i].rows,
                    matrices.matrix(experts[i].block, Projection::kDown),
                    work_.outputs + at * width};
  }
  if (rounds(matrices.format(Projection::kDown))) {
    hidden_codes = rounded_hidden(work_.up, dispatch.order.size(), hidden);
  }
  multiply(work_.up, hidden_codes ? &*hidden_codes : nullptr, {hidden, width, Epilogue::kStore});
  const uint64_t mark = device_.mark();
  for (const ExpertBlock& expert : experts) device_.used(expert.block, mark);
}

void CudaOps::put_expert_outputs(const float* outputs, size_t first, size_t rows) {
  cuda_check(cudaMemcpyAsync(work_.outputs + first * spec_.width, outputs, rows * spec_.width * sizeof(float),
                             cudaMemcpyHostToDevice, stream()),
             "cudaMemcpyAsync");
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
