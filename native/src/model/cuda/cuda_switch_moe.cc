// The MoE layers of CudaSwitchModel.
#include <algorithm>
#include <bit>

#include "core/profile.h"
#include "model/cuda/cuda_switch_model.h"
#include "ops/cuda/routing.h"

namespace sida {

void CudaSwitchModel::moe(const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                          size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  const auto layer = static_cast<int32_t>(weights.moe_layer);
  const ProfileScope scope(ProfileOp::kMoe, {.layer = layer, .tokens = static_cast<int32_t>(tokens)});
  const auto experts = static_cast<size_t>(config_.num_experts);
  const float* alpha = route(weights.router, sequences, tokens, trace, trace_layer);
  report_choices(trace, trace_layer, tokens, experts, dispatch_);
  const Choices choices = upload_choices(alpha, tokens);
  LayerVisit visit(experts_, weights.moe_layer, dispatch_.needed, trace.found + trace_layer * experts);
  while (const auto first = visit.next()) {
    group_.clear();
    for (auto expert = first; expert; expert = visit.another()) {
      if (dispatch_.begin[expert->index + 1] == dispatch_.begin[expert->index]) continue;  // of a whole layer
      group_.push_back(*expert);
    }
    run_experts(choices.order);
  }
  const ProfileScope combining(ProfileOp::kCombine);
  cuda::add_expert_outputs(work_.second, choices.positions, choices.alpha, tokens, dispatch_.k, d_,
                           work_.hidden, stream());
}

const float* CudaSwitchModel::route(const PanelMatrix& router, std::span<const SequenceSpan> sequences,
                                    size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  const ProfileScope scope(ProfileOp::kRoute);
  const auto experts = static_cast<size_t>(config_.num_experts);
  const auto capacity = static_cast<size_t>(config_.expert_capacity);
  if (trace.predicted != nullptr) {
    route_predicted(*trace.predicted, trace_layer, tokens, experts, capacity, sequences, dispatch_);
    return nullptr;
  }
  product(work_.normed, d_, tokens, router, work_.router, experts, Epilogue::kStore);
  cuda::choose_top1(work_.router, tokens, experts, work_.expert, work_.alpha, stream());
  if (trace.router_logits != nullptr) {
    download(trace.router_logits + trace_layer * tokens * experts, work_.router,
             tokens * experts * sizeof(float));
  }
  download(chosen_.get(), work_.expert, tokens * sizeof(uint16_t));
  cuda_check_launches("router");
  wait();
  dispatch_.k = 1;
  dispatch_.expert.assign(chosen_.get(), chosen_.get() + tokens);
  sort_choices(experts, capacity, sequences, dispatch_);
  return work_.alpha;
}

void CudaSwitchModel::run_experts(const uint32_t* order) {
  const auto d_ff = static_cast<size_t>(config_.d_ff);
  const ExpertLayout& layout = experts_.layout();
  for (size_t begin = 0; begin < group_.size(); begin += cuda::kMostProducts) {
    const auto part = std::span(group_).subspan(begin, std::min(cuda::kMostProducts, group_.size() - begin));
    const ProfileScope computing(ProfileOp::kExperts);
    products_.clear();
    for (const auto& [index, block] : part) {
      device_.compute_after_fill(block);
      const uint32_t at = dispatch_.begin[index], rows = dispatch_.begin[index + 1] - at;
      products_.push_back({work_.normed, order + at, static_cast<uint32_t>(dispatch_.k), rows,
                           layout.wi(block), work_.feed_forward + at * d_ff});
    }
    cuda::gemm(products_, {d_, d_ff, Epilogue::kRelu}, stream());
    for (size_t i = 0; i < part.size(); ++i) {
      const uint32_t at = dispatch_.begin[part[i].index];
      products_[i] = {products_[i].y,        nullptr, 1, products_[i].rows, layout.wo(part[i].block),
                      work_.second + at * d_};
    }
    cuda::gemm(products_, {d_ff, d_, Epilogue::kStore}, stream());
    for (const auto& expert : part) device_.used(expert.block);
  }
}

CudaSwitchModel::Choices CudaSwitchModel::upload_choices(const float* alpha, size_t tokens) {
  const size_t k = dispatch_.k, count = dispatch_.order.size();
  // One copy for all three: each is a pause of the kernels.
  choices_.assign(count + 2 * tokens * k, cuda::kNoPosition);
  std::copy(dispatch_.order.begin(), dispatch_.order.end(), choices_.begin());
  uint32_t* positions = choices_.data() + count;
  uint32_t* alphas = positions + tokens * k;
  // Choices stand by expert, and so do each token's: sums do not depend on which expert was at hand first.
  for (uint32_t position = 0; position < count; ++position) {
    const size_t choice = dispatch_.order[position];
    size_t next = choice / k * k;
    while (positions[next] != cuda::kNoPosition) ++next;
    positions[next] = position;
    if (alpha == nullptr) alphas[next] = std::bit_cast<uint32_t>(dispatch_.alpha[choice]);
  }
  const std::span<const uint32_t> all(choices_);
  const uint32_t* device = uploads_.put(alpha == nullptr ? all : all.first(count + tokens * k));
  if (alpha == nullptr) alpha = reinterpret_cast<const float*>(device + count + tokens * k);
  return {device, device + count, alpha};
}

}  // namespace sida
