// The MoE layers of CudaOps.
#include <algorithm>
#include <bit>
#include <cstring>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/routing.h"

namespace sida {

void CudaOps::choose(const PanelMatrix& router, const RouterSpec& spec, size_t tokens, float* logits,
                     Dispatch& dispatch) {
  const size_t experts = router.n, count = tokens * spec.top_k;
  product(work_.activations.normed, tokens, router, work_.router, Epilogue::kStore);
  auto* alpha = reinterpret_cast<float*>(work_.chosen);
  auto* chosen = reinterpret_cast<uint16_t*>(alpha + count);
  cuda::choose(work_.router, tokens, experts, {spec.top_k, spec.normalized}, chosen, alpha, stream());
  if (logits != nullptr) download(logits, work_.router, tokens * experts * sizeof(float));
  // One copy for both, because each copy pauses the kernels.
  download(chosen_.get(), work_.chosen, cuda::choices_bytes(tokens, spec.top_k));
  cuda_check_launches("router");
  wait();
  const auto* alphas = reinterpret_cast<const float*>(chosen_.get());
  const auto* indices = reinterpret_cast<const uint16_t*>(alphas + count);
  dispatch.k = spec.top_k;
  dispatch.expert.assign(indices, indices + count);
  dispatch.alpha.assign(alphas, alphas + count);
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

void CudaOps::experts(const ExpertLayout& layout, std::span<const ExpertBlock> experts, const Dispatch& dispatch) {
  for (size_t begin = 0; begin < experts.size(); begin += cuda::kMaxProducts) {
    const size_t count = std::min(cuda::kMaxProducts, experts.size() - begin);
    run_experts(layout, experts.subspan(begin, count), dispatch);
  }
}

void CudaOps::run_experts(const ExpertLayout& layout, std::span<const ExpertBlock> experts, const Dispatch& dispatch) {
  const size_t width = layout.shape.width, hidden = layout.shape.hidden;
  for (const ExpertBlock& expert : experts) device_.compute_after_fill(expert.block);
  const auto from_normed = [&](Projection projection, Epilogue epilogue) {
    products_.clear();
    for (const auto& [index, block] : experts) {
      const uint32_t at = dispatch.begin[index], rows = dispatch.begin[index + 1] - at;
      products_.push_back({work_.activations.normed, order_ + at, static_cast<uint32_t>(dispatch.k), rows,
                           layout.matrix(block, projection), work_.up + at * hidden});
    }
    cuda::gemm(products_, {width, hidden, epilogue}, stream());
  };
  const bool has_gate = gated(layout.shape.activation);
  if (has_gate) from_normed(Projection::kGate, Epilogue::kStore);
  from_normed(Projection::kUp, has_gate ? Epilogue::kSwiglu : Epilogue::kRelu);
  for (size_t i = 0; i < experts.size(); ++i) {
    const uint32_t at = dispatch.begin[experts[i].index];
    products_[i] = {products_[i].y,         nullptr, 1, products_[i].rows,
                    layout.matrix(experts[i].block, Projection::kDown), work_.outputs + at * width};
  }
  cuda::gemm(products_, {hidden, width, Epilogue::kStore}, stream());
  for (const ExpertBlock& expert : experts) device_.used(expert.block);
}

void CudaOps::combine(const Dispatch& dispatch, size_t tokens) {
  cuda::add_expert_outputs(work_.outputs, positions_, alpha_, tokens, dispatch.k, spec_.width,
                           work_.activations.hidden, stream());
}

}  // namespace sida
