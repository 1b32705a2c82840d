#include "graph/blocks/moe.h"

#include <chrono>

#include "core/profile.h"

namespace sida {

void MoeBlock::run(const MoeSpec& spec, const FeedForwardWeights& weights, std::span<const SequenceSpan> sequences,
                   size_t tokens, const RoutingTrace& trace, size_t trace_layer, float* y) {
  const auto layer = static_cast<int32_t>(weights.moe_layer);
  const ProfileScope scope(ProfileOp::kMoe, {.layer = layer, .tokens = static_cast<int32_t>(tokens)});
  if (trace.alone != nullptr) return run_alone(spec, weights, tokens, trace, trace_layer, y);
  const size_t width = experts_.layout().shape.experts_per_layer;
  const bool ahead = trace.route_ahead > 0 && trace.predicted == nullptr;
  if (ahead) route_ahead_.begin(weights.moe_layer, tokens, trace.route_ahead);
  const bool shares = !trace.whole_layers && host_.may_ask(weights.moe_layer, tokens);
  // The host waits for the choices anyway.
  const bool queued = shares && trace.predicted == nullptr && !spec.branches;
  if (queued) ops_.queue_states(tokens, host_.rows());
  route(spec, weights, sequences, tokens, trace, trace_layer);
  report_choices(trace, trace_layer, tokens, spec.experts, dispatch_);
  ops_.take_choices(dispatch_, tokens);
  uint8_t* found = trace.found + trace_layer * width;
  std::optional<PeerVisit> peers;
  ask_peers(weights.moe_layer, trace, peers);
  const std::span<const uint8_t> of_host =
      shares ? host_.ask(weights.moe_layer, dispatch_) : std::span<const uint8_t>();
  LayerVisit visit(experts_, weights.moe_layer, dispatch_.needed, found, peers ? peers->asked() : of_host);
  if (ahead) {
    visit.begin_loads();
    if (trace_layer == 0) route_ahead_.start_pass();
    route_ahead_.judge(weights.moe_layer, dispatch_);
    route_ahead_.name(weights.moe_layer, trace_layer, tokens);
  }
  if (spec.branches) {
    visit.begin_loads();
    run_shared_branch(spec, weights, tokens, y);
  }
  if (peers) peers->send(ops_.activations().normed);
  if (!of_host.empty()) {
    visit.begin_loads();
    if (!queued) ops_.states(tokens, host_.rows());
    // The device computes what it has meanwhile.
    run_group(visit.next_ready(), visit, weights.moe_layer);
    host_.compute(weights.moe_layer, dispatch_, ops_);
  }
  run_experts(visit, weights.moe_layer);
  if (peers) {
    const std::vector<uint16_t> missing = peers->receive(ops_.expert_outputs());
    visit.bring_back(missing, found);
    if (!missing.empty()) run_experts(visit, weights.moe_layer);
  }
  combine(spec, weights, tokens, y);
}

void MoeBlock::combine(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens, float* y) {
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

void MoeBlock::run_alone(const MoeSpec& spec, const FeedForwardWeights& weights, size_t tokens,
                         const RoutingTrace& trace, size_t trace_layer, float* y) {
  const size_t first = weights.moe_layer - trace_layer;
  const DeviceMoeLayer layer{&weights, &spec.router, &experts_.layout(), first, trace_layer, tokens};
  trace.alone->find_experts(layer);
  if (spec.branches) run_shared_branch(spec, weights, tokens, y);
  trace.alone->experts(layer);
  dispatch_.k = spec.router.top_k;
  combine(spec, weights, tokens, y);
}

void MoeBlock::take_back(const MoeSpec& spec, size_t layer, std::span<const SequenceSpan> sequences, size_t tokens,
                         const RoutingTrace& trace, size_t trace_layer, bool stopped) {
  const LayerLog& log = trace.alone->log(trace_layer);
  dispatch_.needed.clear();
  if (!stopped) {
    dispatch_.k = spec.router.top_k;
    dispatch_.expert.assign(log.expert, log.expert + tokens * spec.router.top_k);
    sort_choices(spec.experts, RouterSpec::kNoCapacity, sequences, dispatch_);
    report_choices(trace, trace_layer, tokens, spec.experts, dispatch_);
  }
  experts_.take_back(layer, dispatch_.needed, log,
                     trace.found + trace_layer * experts_.layout().shape.experts_per_layer);
}

void MoeBlock::ask_peers(size_t layer, const RoutingTrace& trace, std::optional<PeerVisit>& visit) {
  if (!peers_.any() || trace.whole_layers) return;
  if (peers_.take_held(held_)) experts_.set_elsewhere(held_);
  absent_.resize(experts_.layout().shape.experts_of(layer));
  experts_.find_absent(layer, dispatch_.needed, absent_);
  visit.emplace(peers_, layer, dispatch_, absent_);
  if (visit->asked().empty()) visit.reset();
}

void MoeBlock::run_experts(LayerVisit& visit, size_t layer) {
  while (const auto first = visit.next()) run_group(first, visit, layer);
}

void MoeBlock::run_group(std::optional<LayerVisit::Expert> first, LayerVisit& visit, size_t layer) {
  group_.clear();
  size_t rows = 0;
  double work = 0;
  for (auto expert = first; expert; expert = visit.next_ready()) {
    const uint32_t count = dispatch_.begin[expert->index + 1] - dispatch_.begin[expert->index];
    if (count == 0) continue;  // with whole_layers an expert may have no tokens
    group_.push_back({expert->index, expert->block});
    profile_mark(
        ProfileOp::kTakeExpert,
        {.layer = static_cast<int32_t>(layer), .expert = expert->index, .tokens = static_cast<int32_t>(count)});
    rows += count;
    if (peers_.any()) work += peers_.work_of(layer, count);
  }
  const ProfileScope computing(ProfileOp::kExperts,
                               {.layer = static_cast<int32_t>(layer), .tokens = static_cast<int32_t>(rows)});
  const auto begin = std::chrono::steady_clock::now();
  ops_.experts(experts_.layout(), layer, group_, dispatch_);
  if (work == 0) return;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  peers_.learn_local(seconds.count(), work);
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
    if (spec.router.weighted) ops_.weigh_choices(weights.expert_factors, spec.experts, dispatch_);
  } else {
    const size_t width = experts_.layout().shape.experts_per_layer;
    float* logits = trace.router_logits == nullptr ? nullptr : trace.router_logits + trace_layer * tokens * width;
    ops_.choose(weights, spec.router, tokens, logits, dispatch_);
    if (logits != nullptr) widen_rows(logits, tokens, spec.experts, width);
  }
  if (spec.shared && spec.shared->gate == SharedGate::kSoftmax) {
    ops_.scale_choices(weights.ffn.output_gate, tokens, dispatch_);
  }
  sort_choices(spec.experts, spec.router.capacity, sequences, dispatch_);
}

}  // namespace sida
