#include "checkpoint/pack_formats.h"

#include <algorithm>
#include <string>

#include "checkpoint/block_scales.h"
#include "checkpoint/slot_reader.h"
#include "core/error.h"
#include "spec/tensors.h"

namespace sida {
namespace {

bool plain(WeightFormat format) { return format == kF32Format || format == kBf16Format; }

/// The type that every number of both has, where neither is quantized.
WeightFormat wider(WeightFormat a, WeightFormat b) { return a == b ? a : kF32Format; }

/// Calls visit(layer, stack, layer of the stack, experts) for each MoE layer.
template <class Visit>
void for_each_moe_layer(const ModelSpec& spec, const Visit& visit) {
  size_t moe_layer = 0;
  for (size_t stack = 0; stack < spec.stacks.size(); ++stack) {
    const std::vector<LayerSpec>& layers = spec.stacks[stack].layers;
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      if (const MoeSpec* moe = layers[layer].moe()) visit(moe_layer++, stack, layer, moe->experts);
    }
  }
}

/// The type that loses nothing of a slot.
WeightFormat own_format(const Checkpoint& checkpoint, const TensorSlot& slot) {
  const SlotData data = checkpoint.source_of(slot);
  if (data.block_scales != nullptr && fits_bf16(checkpoint, slot, data)) return kBf16Format;
  return own_format(data);
}

/// The types of the gate, up and down projections in the checkpoint.
ExpertFormats own_formats(const Checkpoint& checkpoint, size_t stack, size_t layer, size_t experts) {
  std::vector<WeightFormat> own;
  for (size_t expert = 0; expert < experts; ++expert) {
    size_t matrix = 0;
    for (const TensorSlot& slot : expert_slots(checkpoint.spec(), stack, layer, expert)) {
      // Biases stay f32 in every pack.
      if (slot.shape.size() == 1) continue;
      const WeightFormat format = own_format(checkpoint, slot);
      if (matrix == own.size()) own.push_back(format);
      own[matrix] = wider(own[matrix], format);
      ++matrix;
    }
  }
  return {own.front(), own[own.size() - 2], own.back()};
}

/// One type for all that loses nothing; nothing where that would widen a quantized one.
std::optional<WeightFormat> one_format(const std::vector<WeightFormat>& own) {
  if (own.empty()) return kBf16Format;
  WeightFormat one = own.front();
  for (const WeightFormat format : own) {
    if (format != one && !(plain(format) && plain(one))) return std::nullopt;
    one = wider(one, format);
  }
  return one;
}

void refuse_unless_copied(const char* kind, WeightFormat format, const std::optional<WeightFormat>& own) {
  if (!only_copied(format.type) || own == format) return;
  throw Error("invalid_request", std::string(kind) + ": sida does not quantize to " + weight_type_name(format.type) +
                                     "; only weights that a GGUF file holds in it can have that type");
}

}  // namespace

void PackFormats::set_experts(const ModelSpec& spec, WeightFormat format) {
  all_experts = format;
  experts.assign(spec.moe_layer_count(), {format, format, format});
}

void PackFormats::set_dense(const ModelSpec& spec, WeightFormat format) {
  all_dense = format;
  dense.clear();
  for_each_dense_slot(spec, [&](const TensorSlot&) { dense.push_back(format); });
}

PackFormats uniform_formats(const ModelSpec& spec, WeightFormat experts, WeightFormat dense) {
  PackFormats formats;
  formats.set_experts(spec, experts);
  formats.set_dense(spec, dense);
  return formats;
}

PackFormats lossless_formats(const Checkpoint& checkpoint) {
  const ModelSpec& spec = checkpoint.spec();
  PackFormats formats;
  std::vector<WeightFormat> of_experts, of_dense;
  for_each_moe_layer(spec, [&](size_t, size_t stack, size_t layer, size_t experts) {
    const ExpertFormats own = own_formats(checkpoint, stack, layer, experts);
    of_experts.insert(of_experts.end(), {own.gate, own.up, own.down});
    formats.experts.push_back(own);
  });
  for_each_dense_slot(spec, [&](const TensorSlot& slot) {
    formats.dense.push_back(kF32Format);
    if (slot.form != TensorForm::kMatrix || slot.shape.size() < 2) return;
    of_dense.push_back(own_format(checkpoint, slot));
    formats.dense.back() = of_dense.back();
  });
  if (const auto one = one_format(of_experts)) formats.set_experts(spec, *one);
  if (const auto one = one_format(of_dense)) formats.set_dense(spec, *one);
  return formats;
}

PackFormats chosen_formats(const Checkpoint& checkpoint, std::optional<WeightFormat> experts,
                           std::optional<WeightFormat> dense) {
  PackFormats formats = lossless_formats(checkpoint);
  if (experts) {
    refuse_unless_copied("experts", *experts, formats.all_experts);
    formats.set_experts(checkpoint.spec(), *experts);
  }
  if (dense) {
    refuse_unless_copied("dense", *dense, formats.all_dense);
    formats.set_dense(checkpoint.spec(), *dense);
  }
  return formats;
}

}  // namespace sida
