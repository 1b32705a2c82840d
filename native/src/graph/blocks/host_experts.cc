#include "graph/blocks/host_experts.h"

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "core/follow.h"
#include "core/profile.h"

namespace sida {
namespace {

/// Rows of all experts together that the CPU is asked for in a layer. More of them belong to the GPU.
constexpr size_t kMostRows = 256;
/// Bytes a second that a thread multiplies, until it is measured.
constexpr double kUnmeasuredRate = 2e9;
/// How much faster the CPU is thought to be after each layer that does not ask it.
constexpr double kForgettingStep = 1.01;

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

/// Whether the CPU's outputs have the GPU's bits: all products take rounded rows on both.
bool same_bits(const BlockLayout& block, Activation activation) {
  const WeightFormat up = block.format(Projection::kUp);
  const bool alike = !gated(activation) || block.format(Projection::kGate) == up;
  return alike && quantized(up) && quantized(block.format(Projection::kDown));
}

struct Sizes {
  size_t tokens, rows, outputs, inputs, hidden_stride, hidden, rounded;

  Sizes(const ExpertShape& shape, const BatchLimits& limits)
      : tokens(std::min(limits.max_batch_tokens, kMostRows)),
        rows(line(tokens * shape.width)),
        outputs(line(kMostRows * shape.width)),
        inputs(outputs),
        // Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
        hidden_stride(line(shape.hidden) + 16),
        hidden(kMostRows * hidden_stride),
        rounded(
            line(rounded_bytes(kMostRows, std::max(shape.width, shape.hidden), limits.activations) / sizeof(float))) {}
  size_t floats() const { return rows + outputs + inputs + hidden + rounded; }
};

}  // namespace

uint64_t HostExperts::bytes(const ExpertLayout& layout, const BatchLimits& limits) {
  if (limits.device != DeviceKind::kCuda || limits.activations != ActivationFormat::kInt8) return 0;
  const bool any = std::ranges::any_of(
      layout.layers, [&](const BlockLayout& block) { return same_bits(block, layout.shape.activation); });
  return any ? device_bytes(Sizes(layout.shape, limits).floats() * sizeof(float)) : 0;
}

HostExperts::HostExperts(ExpertStore& store, const BatchLimits& limits, std::unique_ptr<Backend> host, uint64_t bytes,
                         HostExpertsOptions options)
    : store_(store),
      options_(std::move(options)),
      backend_(std::move(host)),
      budget_(*backend_, bytes),
      pool_(bytes > 0 ? limits.threads : 1),
      seconds_per_work_(1 / (kUnmeasuredRate * static_cast<double>(limits.threads))) {
  if (bytes == 0) return;
  last_computed_.assign(store.layout().experts(), 0);
  const Sizes sizes(store.layout().shape, limits);
  memory_ = DeviceBuffer(budget_, sizes.floats() * sizeof(float));
  most_tokens_ = sizes.tokens;
  rows_ = memory_.floats();
  outputs_ = rows_ + sizes.rows;
  float* inputs = outputs_ + sizes.outputs;
  float* hidden = inputs + sizes.inputs;
  auto* rounded = reinterpret_cast<std::byte*>(hidden + sizes.hidden);
  scratch_ = {kMostRows, inputs, hidden, sizes.hidden_stride, {limits.activations, {rounded, sizes.rounded * 4}}};
}

bool HostExperts::may_ask(size_t layer, size_t tokens) const {
  const ExpertLayout& layout = store_.layout();
  return on() && tokens <= most_tokens_ && same_bits(layout.layers[layer], layout.shape.activation) &&
         store_.may_hold_absent(layer);
}

double HostExperts::work_of(size_t layer, size_t rows) const {
  // With few rows, reading the weights dominates the cost.
  return static_cast<double>(store_.layout().layers[layer].bytes) * static_cast<double>(std::max<size_t>(rows, 4)) / 4;
}

size_t HostExperts::share_of(size_t layer) {
  if (options_.share) return std::min(options_.share(missing_.size()), missing_.size());
  const double copy = static_cast<double>(store_.layout().layers[layer].bytes) * store_.seconds_per_copied_byte();
  double copies = copy * static_cast<double>(missing_.size()), computing = 0, least = copies;
  size_t best = 0;
  for (size_t i = 0; i < missing_.size(); ++i) {
    copies -= copy;
    computing += work_of(layer, missing_[i].rows) * seconds_per_work_;
    if (std::max(copies, computing) >= least) continue;
    least = std::max(copies, computing);
    best = i + 1;
  }
  // A speed that keeps the CPU from being asked would never be measured again.
  if (best == 0) seconds_per_work_ /= kForgettingStep;
  // Experts that the CPU alone computes would never come to the GPU.
  return last_computed_[missing_.back().expert.id] != 0 ? std::min(best, missing_.size() - 1) : best;
}

void HostExperts::release() {
  for (const HostedExpert& expert : held_) store_.release_hosted(expert);
  held_.clear();
}

std::span<const uint8_t> HostExperts::ask(size_t layer, const Dispatch& dispatch) {
  release();  // what a pass that failed has left
  missing_.clear();
  store_.hold_hosted(layer, dispatch.needed, held_);
  for (const HostedExpert& expert : held_) {
    const size_t rows = dispatch.begin[expert.index + 1] - dispatch.begin[expert.index];
    if (rows > 0) missing_.push_back({expert, rows});
  }
  // Experts with many rows, those that the CPU computed the last time, and those used often are worth their copy.
  std::ranges::sort(missing_, {}, [&](const Missing& of) {
    return std::tuple(of.rows, last_computed_[of.expert.id], of.expert.uses, of.expert.id);
  });
  asked_count_ = missing_.empty() ? 0 : share_of(layer);
  size_t rows = 0;
  for (size_t i = 0; i < asked_count_; ++i) {
    rows += missing_[i].rows;
    if (rows > kMostRows) asked_count_ = i;
  }
  for (size_t i = 0; i < missing_.size(); ++i) last_computed_[missing_[i].expert.id] = i < asked_count_;
  if (asked_count_ == 0) {
    release();
    return {};
  }
  asked_.assign(store_.layout().shape.experts_of(layer), 0);
  for (size_t i = 0; i < asked_count_; ++i) {
    asked_[missing_[i].expert.index] = static_cast<uint8_t>(Found::kCpu);
  }
  return asked_;
}

void HostExperts::compute(size_t layer, const Dispatch& dispatch, Ops& ops) {
  const ExpertLayout& layout = store_.layout();
  const BlockLayout& matrices = layout.layers[layer];
  const size_t width = layout.shape.width;
  const ProfileScope scope(ProfileOp::kExperts, {.layer = static_cast<int32_t>(layer)});
  const auto begin = std::chrono::steady_clock::now();
  group_.clear();
  float* y = outputs_;
  double work = 0;
  for (const auto& [expert, rows] : std::span(missing_).first(asked_count_)) {
    const auto matrix = [&](Projection projection) { return matrices.matrix(expert.block, projection); };
    group_.push_back({matrix(Projection::kGate), matrix(Projection::kUp), matrix(Projection::kDown),
                      dispatch.order.data() + dispatch.begin[expert.index], rows, y});
    y += rows * width;
    work += work_of(layer, rows);
  }
  expert_ffn(pool_, group_, rows_, dispatch.k, layout.shape.activation, scratch_);
  for (size_t i = 0; i < asked_count_; ++i) {
    ops.put_expert_outputs(group_[i].y, dispatch.begin[missing_[i].expert.index], missing_[i].rows);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  seconds_per_work_ = follow(seconds_per_work_, seconds.count() / work, kWorkStep);
  release();
}

}  // namespace sida
