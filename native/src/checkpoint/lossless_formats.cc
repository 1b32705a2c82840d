#include "checkpoint/lossless_formats.h"

#include "model/tensors.h"

namespace sida {

LosslessFormats lossless_formats(const Checkpoint& checkpoint) {
  LosslessFormats formats{kBf16Format, kBf16Format};
  for_each_slot(checkpoint.spec(), [&](const TensorSlot& slot) {
    // Other forms stay f32 in every pack.
    if (slot.form != TensorForm::kMatrix && slot.form != TensorForm::kExpert) return;
    if (checkpoint.source_of(slot).tensor->dtype == Dtype::kBF16) return;
    (slot.form == TensorForm::kExpert ? formats.experts : formats.dense) = kF32Format;
  });
  return formats;
}

}  // namespace sida
