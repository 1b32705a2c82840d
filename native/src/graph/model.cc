#include "graph/model.h"

#include "core/error.h"
#include "core/profile.h"
#include "graph/blocks/attention.h"
#include "graph/blocks/branch.h"
#include "graph/blocks/norm_input.h"
#include "graph/token_positions.h"

namespace sida {

bool Model::run(size_t stack, std::span<const int32_t> tokens, std::span<const SequenceSpan> sequences,
                const RoutingTrace& trace) {
  const StackSpec& spec = spec_.stacks[stack];
  const StackWeights& weights = weights_.stacks[stack];
  const size_t count = tokens.size();
  ops_.start(stack, sequences, count);
  ops_.embed(weights.embedding, tokens, spec_.embedding_scale);
  if (weights_.embedding_bias != nullptr) ops_.add_row(weights_.embedding_bias, count);
  if (const auto* sinusoids = std::get_if<Sinusoids>(&spec.positions)) {
    token_positions(*sinusoids, tokens, sequences, positions_);
    ops_.add_positions(*sinusoids, positions_);
  }
  const auto layers = [&] { run_layers(stack, sequences, count, trace); };
  if (trace.alone == nullptr) {
    layers();
    ops_.finish();
    return true;
  }
  try {
    trace.alone->run(layers);
    ops_.finish();
  } catch (...) {
    try {
      ops_.finish();
      take_back(stack, sequences, count, trace, true);
    } catch (const Error&) {
      // The device has failed, which ends the engine.
    }
    throw;
  }
  const size_t moe_layers = spec.moe_layers();
  const bool stopped = moe_layers > 0 && trace.alone->log(moe_layers - 1).stopped != 0;
  take_back(stack, sequences, count, trace, stopped);
  return !stopped;
}

void Model::run_layers(size_t stack, std::span<const SequenceSpan> sequences, size_t count, const RoutingTrace& trace) {
  const StackSpec& spec = spec_.stacks[stack];
  const StackWeights& weights = weights_.stacks[stack];
  const bool last = stack + 1 == spec_.stacks.size();
  size_t moe_layers = 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const ProfileScope scope(ProfileOp::kLayer, {.layer = static_cast<int32_t>(i)});
    const LayerSpec& layer = spec.layers[i];
    // Only a decoder's own keys outlive the pass. An encoder uses the first layer of its pages as scratch; the
    // cross-attention keys for the next stack then overwrite it.
    const LayerPlace place{spec_, spec, spec.causal ? i : 0};
    layer.delta ? delta_attention(ops_, place, *layer.delta, weights.layers[i].self, count)
                : self_attention(ops_, place, layer.self, weights.layers[i].self, count);
    if (layer.cross) cross_attention(ops_, {spec_, spec, i}, *layer.cross, weights.layers[i].cross, count);
    feed_forward(layer, weights.layers[i].feed_forward, sequences, count, trace, moe_layers);
    if (layer.scaled) ops_.scale(ops_.activations().hidden, count * spec_.width, weights.layers[i].scale);
    moe_layers += layer.moe() != nullptr;
  }
  const Activations& a = ops_.activations();
  ops_.norm(a.hidden, weights.final_norm, spec_.norm_epsilon, count, spec_.width, a.normed);
  if (!last) {
    const ProfileScope scope(ProfileOp::kCrossKeys);
    const StackWeights& next = weights_.stacks[stack + 1];
    for (size_t layer = 0; layer < next.layers.size(); ++layer) {
      write_cross_keys(ops_, next.layers[layer].cross, layer, count);
    }
  }
}

void Model::take_back(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens, const RoutingTrace& trace,
                      bool stopped) {
  const size_t first = spec_.first_moe_layer(stack);
  size_t at = 0;
  for (const LayerSpec& layer : spec_.stacks[stack].layers) {
    if (layer.moe() == nullptr) continue;
    moe_.take_back(*layer.moe(), first + at, sequences, tokens, trace, at, stopped);
    ++at;
  }
}

void Model::feed_forward(const LayerSpec& spec, const FeedForwardWeights& weights,
                         std::span<const SequenceSpan> sequences, size_t tokens, const RoutingTrace& trace,
                         size_t trace_layer) {
  norm_input(ops_, spec_, weights.norm, tokens);
  const Activations& a = ops_.activations();
  float* y = spec.post_norms ? a.branch : a.hidden;
  if (spec.post_norms) ops_.clear(y, tokens * spec_.width);
  if (const MoeSpec* moe = spec.moe()) {
    moe_.run(*moe, weights, sequences, tokens, trace, trace_layer, y);
  } else {
    const ProfileScope scope(ProfileOp::kDense);
    ops_.feed_forward(weights.ffn, std::get<FfnSpec>(spec.feed_forward).activation, tokens, y);
  }
  if (spec.post_norms) add_branch(ops_, spec_, weights.post_norm, tokens);
}

void Model::logits(std::span<const int32_t> rows, float* out) {
  const ProfileScope scope(ProfileOp::kHead, {.tokens = static_cast<int32_t>(rows.size())});
  ops_.logits(weights_.head, rows, spec_.head, out);
}

}  // namespace sida
