#include "checkpoint/lossless_formats.h"

#include <optional>

#include "model/tensors.h"

namespace sida {
namespace {

WeightFormat lossless_format(const SlotData& data) {
  if (data.scales != nullptr) return kMxfp4Format;
  return data.tensor->dtype == Dtype::kBF16 ? kBf16Format : kF32Format;
}

/// The type that holds numbers of both: all MXFP4 values fit bf16, all bf16 values f32.
WeightFormat wider(WeightFormat a, WeightFormat b) {
  if (a == kF32Format || b == kF32Format) return kF32Format;
  return a == kMxfp4Format && b == kMxfp4Format ? a : kBf16Format;
}

}  // namespace

LosslessFormats lossless_formats(const Checkpoint& checkpoint) {
  std::optional<WeightFormat> experts, dense;
  for_each_slot(checkpoint.spec(), [&](const TensorSlot& slot) {
    // Other forms, and the biases of experts, stay f32 in every pack.
    const bool expert = slot.form == TensorForm::kExpert;
    if ((slot.form != TensorForm::kMatrix && !expert) || slot.shape.size() < 2) return;
    const WeightFormat own = lossless_format(checkpoint.source_of(slot));
    std::optional<WeightFormat>& of = expert ? experts : dense;
    of = of ? wider(*of, own) : own;
  });
  return {experts.value_or(kBf16Format), dense.value_or(kBf16Format)};
}

}  // namespace sida
