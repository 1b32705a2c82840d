#include <string>
#include <utility>

#include "spec/families/decoder_tensors.h"
#include "spec/families/gguf_tensors.h"
#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

using Candidate = TensorSource::Candidate;

/// Rows of a tensor of `rows` rows that has all projections of a key head together, `span` of them: `length` from
/// `first` on.
Candidate by_head(std::string name, const ModelSpec& spec, uint64_t rows, uint64_t span, uint64_t first,
                  uint64_t length) {
  Candidate rows_of_heads{std::move(name), {rows, spec.width}, first, span};
  rows_of_heads.row_runs.length = length;
  return rows_of_heads;
}

/// The queries of gated attention, or their gates, which follow them head by head.
Candidate by_query(std::string name, const ModelSpec& spec, const AttentionSpec& attention, bool gates) {
  const uint64_t head = attention.head_dim;
  return by_head(std::move(name), spec, 2 * attention.query_width(), 2 * head, gates ? head : 0, head);
}

/// Queries, keys, values and gates, or β and decays, of a delta rule in tensors that have them by key head.
Candidate by_key_head(std::string name, const ModelSpec& spec, const DeltaSpec& delta, TensorRole role) {
  const uint64_t values = delta.value_heads / delta.key_heads;
  if (role == TensorRole::kBeta || role == TensorRole::kDecay) {
    return by_head(std::move(name), spec, 2 * delta.value_heads, 2 * values, role == TensorRole::kBeta ? 0 : values,
                   values);
  }
  const uint64_t keys = delta.key_dim, width = values * delta.value_dim, span = 2 * (keys + width);
  const uint64_t first = role == TensorRole::kQuery   ? 0
                         : role == TensorRole::kKey   ? keys
                         : role == TensorRole::kValue ? 2 * keys
                                                      : 2 * keys + width;
  const bool key = role == TensorRole::kQuery || role == TensorRole::kKey;
  return by_head(std::move(name), spec, delta.key_heads * span, span, first, key ? keys : width);
}

/// Queries, keys or values of a tensor that has all three, one after the other, each of its rows of `shape`.
Candidate third(std::string name, const DeltaSpec& delta, TensorRole role, std::vector<uint64_t> shape) {
  const uint64_t keys = delta.key_width();
  const bool query = role == TensorRole::kQuery || role == TensorRole::kQueryTaps;
  const bool key = role == TensorRole::kKey || role == TensorRole::kKeyTaps;
  shape.insert(shape.begin(), 2 * keys + delta.value_width());
  return {std::move(name), std::move(shape), query ? 0 : key ? keys : 2 * keys};
}

/// The value heads that the model has tiled, by key head in the tensor.
Candidate untiled(Candidate rows, const DeltaSpec& delta, uint64_t rows_of_head) {
  if (!delta.tiled) return rows;
  rows.row_step = rows_of_head;
  rows.row_runs = {rows_of_head, delta.value_heads / delta.key_heads};
  return rows;
}

TensorSource delta_source(const ModelSpec& spec, const DeltaSpec& delta, const TensorSlot& slot) {
  const std::string rule = "model.layers." + std::to_string(slot.layer) + ".linear_attn.";
  const auto projection = [&](const char* tiled, uint64_t rows_of_head, const char* by_head) {
    if (!delta.tiled) return TensorSource{{by_key_head(rule + by_head, spec, delta, slot.role)}};
    return TensorSource{{untiled({rule + tiled}, delta, rows_of_head)}};
  };
  switch (slot.role) {
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue: {
      if (!delta.tiled) return projection("", 0, "in_proj_qkvz.weight");
      Candidate rows = third(rule + "in_proj_qkv.weight", delta, slot.role, {spec.width});
      return {{slot.role == TensorRole::kValue ? untiled(std::move(rows), delta, delta.value_dim) : rows}};
    }
    case TensorRole::kOutputGate:
      return projection("in_proj_z.weight", delta.value_dim, "in_proj_qkvz.weight");
    case TensorRole::kBeta:
      return projection("in_proj_b.weight", 1, "in_proj_ba.weight");
    case TensorRole::kDecay:
      return projection("in_proj_a.weight", 1, "in_proj_ba.weight");
    case TensorRole::kDecayBias:
      return {{untiled({rule + "dt_bias"}, delta, 1)}};
    case TensorRole::kDecayRate: {
      Candidate rates = untiled({rule + "A_log"}, delta, 1);
      rates.form = NumberForm::kLogOfMinus;
      return {{std::move(rates)}};
    }
    case TensorRole::kQueryTaps:
    case TensorRole::kKeyTaps:
      return {{third(rule + "conv1d.weight", delta, slot.role, {1, delta.taps})}};
    case TensorRole::kValueTaps:
      return {{untiled(third(rule + "conv1d.weight", delta, slot.role, {1, delta.taps}), delta, delta.value_dim)}};
    case TensorRole::kDeltaNorm:
      return {{{rule + "norm.weight"}}};
    default: {
      Candidate output{rule + "out_proj.weight"};
      if (delta.tiled) output.column_runs = {delta.value_dim, delta.value_heads / delta.key_heads};
      return {{std::move(output)}};
    }
  }
}

bool of_delta(TensorRole role) {
  switch (role) {
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
    case TensorRole::kOutputGate:
    case TensorRole::kBeta:
    case TensorRole::kDecay:
    case TensorRole::kDecayBias:
    case TensorRole::kDecayRate:
    case TensorRole::kQueryTaps:
    case TensorRole::kKeyTaps:
    case TensorRole::kValueTaps:
    case TensorRole::kDeltaNorm:
    case TensorRole::kAttentionOutput:
      return true;
    default:
      return false;
  }
}

bool is_norm(TensorRole role) {
  return role == TensorRole::kAttentionNorm || role == TensorRole::kFeedForwardNorm || role == TensorRole::kFinalNorm ||
         role == TensorRole::kQueryNorm || role == TensorRole::kKeyNorm;
}

TensorSource gguf_delta_source(const ModelSpec& spec, const DeltaSpec& delta, const TensorSlot& slot) {
  const std::string layer = "blk." + std::to_string(slot.layer) + ".";
  // Old files have the projections as transformers does.
  const auto or_by_head = [&](Candidate rows) {
    TensorSource source{{std::move(rows)}};
    if (!delta.tiled) source.candidates.push_back(by_key_head(layer + "ssm_in.weight", spec, delta, slot.role));
    return source;
  };
  const auto rate = [&](const char* name) {
    return TensorSource{
        {delta.tiled ? Candidate{layer + name} : by_key_head(layer + "ssm_ba.weight", spec, delta, slot.role)}};
  };
  switch (slot.role) {
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
      return or_by_head(third(layer + "attn_qkv.weight", delta, slot.role, {spec.width}));
    case TensorRole::kOutputGate:
      return or_by_head({layer + "attn_gate.weight"});
    case TensorRole::kBeta:
      return rate("ssm_beta.weight");
    case TensorRole::kDecay:
      return rate("ssm_alpha.weight");
    case TensorRole::kDecayBias:
      return {{{layer + "ssm_dt.bias"}}};
    case TensorRole::kDecayRate:
      return {{{layer + "ssm_a"}}};
    case TensorRole::kQueryTaps:
    case TensorRole::kKeyTaps:
    case TensorRole::kValueTaps:
      return {{third(layer + "ssm_conv1d.weight", delta, slot.role, {delta.taps})}};
    case TensorRole::kDeltaNorm:
      return {{{layer + "ssm_norm.weight"}}};
    default:
      return {{{layer + "ssm_out.weight"}}};
  }
}

bool of_query(TensorRole role) { return role == TensorRole::kQuery || role == TensorRole::kOutputGate; }

}  // namespace

TensorSource qwen_delta_source(const ModelSpec& spec, const TensorSlot& slot) {
  const LayerSpec& layer = spec.stacks[slot.stack].layers[slot.layer];
  if (layer.delta && of_delta(slot.role)) return delta_source(spec, *layer.delta, slot);
  if (of_query(slot.role)) {
    const std::string name = "model.layers." + std::to_string(slot.layer) + ".self_attn.q_proj.weight";
    return {{by_query(name, spec, layer.self, slot.role == TensorRole::kOutputGate)}};
  }
  TensorSource source = decoder_source(spec, slot);
  if (is_norm(slot.role)) source.candidates.front().form = NumberForm::kLessOne;
  return source;
}

TensorSource qwen_delta_gguf_source(const ModelSpec& spec, const TensorSlot& slot) {
  const LayerSpec& layer = spec.stacks[slot.stack].layers[slot.layer];
  if (layer.delta && of_delta(slot.role)) return gguf_delta_source(spec, *layer.delta, slot);
  if (of_query(slot.role)) {
    const std::string name = "blk." + std::to_string(slot.layer) + ".attn_q.weight";
    return {{by_query(name, spec, layer.self, slot.role == TensorRole::kOutputGate)}};
  }
  return gguf_source(spec, slot);
}

}  // namespace sida
