#include "graph/blocks/moe.h"

#include "core/profile.h"

namespace sida {

void MoeBlock::run(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                   size_t tokens, const RoutingTrace& trace, size_t trace_layer, float* y) {
  const auto layer = static_cast<int32_t>(weights.moe_layer);
  const ProfileScope scope(ProfileOp::kMoe, {.layer = layer, .tokens = static_cast<int32_t>(tokens)});
  const size_t width = experts_.layout().shape.experts_per_layer;
  route(spec, weights, sequences, tokens, trace, trace_layer);
  report_choices(trace, trace_layer, tokens, spec.experts, dispatch_);
  ops_.take_choices(dispatch_, tokens);
  LayerVisit visit(experts_, weights.moe_layer, dispatch_.needed, trace.found + trace_layer * width);
  if (trace.route_ahead > 0 && trace.predicted == nullptr) {
    visit.begin_loads();
    if (trace_layer == 0) route_ahead_.start_pass();
    route_ahead_.judge(weights.moe_layer, dispatch_);
    route_ahead_.name(weights.moe_layer, trace_layer, tokens, trace.route_ahead);
  }
  if (spec.branches) {
    visit.begin_loads();
    run_shared_branch(spec, weights, tokens, y);
  }
  while (const auto first = visit.next()) {
    group_.clear();
    int32_t rows = 0;
    for (auto expert = first; expert; expert = visit.next_ready()) {
      const uint32_t count = dispatch_.begin[expert->index + 1] - dispatch_.begin[expert->index];
      if (count == 0) continue;  // with whole_layers an expert may have no tokens
      group_.push_back({expert->index, expert->block});
      profile_mark(ProfileOp::kTakeExpert,
                   {.layer = layer, .expert = expert->index, .tokens = static_cast<int32_t>(count)});
      rows += static_cast<int32_t>(count);
    }
    const ProfileScope computing(ProfileOp::kExperts, {.layer = layer, .tokens = rows});
    ops_.experts(experts_.layout(), weights.moe_layer, group_, dispatch_);
  }
  {
    const ProfileScope combining(ProfileOp::kCombine);
    if (spec.branches) {
      // The experts have read their inputs.
      float* outputs = ops_.activations().normed;
      ops_.clear(outputs, tokens * model_.width);
      ops_.combine(dispatch_, tokens, outputs);
      ops_.norm(outputs, weights.experts_post_norm, model_.norm_epsilon, tokens, model_.width, outputs);
      ops_.add(outputs, tokens * model_.width, y);
      return;
    }
    ops_.combine(dispatch_, tokens, y);
    if (weights.moe_bias != nullptr) ops_.add_row(weights.moe_bias, tokens);
  }
  if (!spec.shared) return;
  const ProfileScope shared(ProfileOp::kDense);
  ops_.feed_forward(weights.ffn, spec.shared->ffn.activation, tokens, y);
}

void MoeBlock::run_shared_branch(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, float* y) {
  const ProfileScope shared(ProfileOp::kDense);
  const Activations& a = ops_.activations();
  ops_.feed_forward(weights.ffn, spec.shared->ffn.activation, tokens, y);
  ops_.norm(y, weights.shared_post_norm, model_.norm_epsilon, tokens, model_.width, y);
  ops_.norm(a.hidden, weights.experts_norm, model_.norm_epsilon, tokens, model_.width, a.normed);
}

void MoeBlock::route(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                     size_t tokens, const RoutingTrace& trace, size_t trace_layer) {
  const ProfileScope scope(ProfileOp::kRoute);
  if (trace.predicted != nullptr) {
    choose_predicted(*trace.predicted, trace_layer, tokens, spec.router.scale, dispatch_);
  } else {
    const size_t width = experts_.layout().shape.experts_per_layer;
    float* logits = trace.router_logits == nullptr ? nullptr : trace.router_logits + trace_layer * tokens * width;
    ops_.choose(weights, spec.router, tokens, logits, dispatch_);
    if (logits != nullptr) widen_rows(logits, tokens, spec.experts, width);
  }
  if (spec.router.weighted) ops_.weigh_choices(weights.expert_factors, spec.experts, dispatch_);
  if (spec.shared && spec.shared->gate == SharedGate::kSoftmax) {
    ops_.scale_choices(weights.ffn.output_gate, tokens, dispatch_);
  }
  sort_choices(spec.experts, spec.router.capacity, sequences, dispatch_);
}

}  // namespace sida
