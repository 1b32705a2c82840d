// The part of Checkpoint that checks which tensors its model needs.
#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr const char* kOtherModel = "config.json and the weights are of different models";

/// "2 encoder layers, 2 decoder layers and 3 experts"
std::string size_text(const ModelSpec& spec) {
  std::string text;
  for (const StackSpec& stack : spec.stacks) {
    text += (text.empty() ? "" : ", ") + std::to_string(stack.layers.size()) + " " + stack.name + " layers";
  }
  return text + " and " + std::to_string(spec.experts()) + " experts";
}

const std::vector<uint64_t>& shape_of(const TensorSource::Candidate& candidate, const TensorSlot& slot) {
  return candidate.shape.empty() ? slot.shape : candidate.shape;
}

}  // namespace

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const auto before = [](const TensorInfo& tensor, std::string_view other) { return tensor.name < other; };
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name, before);
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const TensorInfo& Checkpoint::find_shaped(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr) {
    throw checkpoint_error({file_of(nullptr),
                            name,
                            "missing tensor",
                            shape_text(shape),
                            "none",
                            std::string(kOtherModel) + ", or a file is incomplete",
                            {}});
  }
  if (tensor->shape != shape) {
    std::map<std::string, double> numbers;
    for (size_t i = 0; i < std::min(shape.size(), tensor->shape.size()); ++i) {
      if (shape[i] != tensor->shape[i]) {
        numbers = expected_found(shape[i], tensor->shape[i]);
        break;
      }
    }
    throw checkpoint_error({file_of(tensor), name, "shape", shape_text(shape), shape_text(tensor->shape),
                            kOtherModel, std::move(numbers)});
  }
  return *tensor;
}

const TensorInfo& Checkpoint::require(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo& tensor = find_shaped(name, shape);
  if (is_float(tensor.dtype)) return tensor;
  throw checkpoint_error({file_of(&tensor),
                          name,
                          "dtype",
                          "F32, BF16 or F16",
                          dtype_name(tensor.dtype),
                          "quantised checkpoints are not supported",
                          {}});
}

const TensorInfo& Checkpoint::require_codes(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo& tensor = find_shaped(name, shape);
  if (tensor.dtype == Dtype::kU8) return tensor;
  throw checkpoint_error(
      {file_of(&tensor), name, "dtype", "U8, codes of MXFP4", dtype_name(tensor.dtype), "", {}});
}

SlotData Checkpoint::source_of(const TensorSlot& slot) const {
  const TensorSource source = model_.family->source(spec(), slot);
  const TensorSource::Candidate* taken = &source.candidates.front();
  for (const TensorSource::Candidate& candidate : source.candidates) {
    if (find(candidate.name) == nullptr) continue;
    taken = &candidate;
    break;
  }
  const std::vector<uint64_t>& shape = shape_of(*taken, slot);
  if (taken->scales.empty()) {
    return {&require(taken->name, shape), taken->first_row, taken->row_step, taken->transposed, taken->first_column};
  }
  const std::vector<uint64_t> scales(shape.begin(), shape.end() - 1);
  return {&require_codes(taken->name, shape), taken->first_row, taken->row_step, false, 0,
          &require_codes(taken->scales, scales)};
}

void Checkpoint::check_tensors() const {
  std::vector<bool> known(tensors_.size());
  for_each_slot(spec(), [&](const TensorSlot& slot) {
    source_of(slot);
    // Candidates that are present must have the right shape, even where another one is read.
    for (const TensorSource::Candidate& candidate : model_.family->source(spec(), slot).candidates) {
      if (find(candidate.name) == nullptr) continue;
      const std::vector<uint64_t>& shape = shape_of(candidate, slot);
      const bool codes = !candidate.scales.empty();
      const TensorInfo& tensor = codes ? require_codes(candidate.name, shape) : require(candidate.name, shape);
      known[static_cast<size_t>(&tensor - tensors_.data())] = true;
      if (const TensorInfo* scales = codes ? find(candidate.scales) : nullptr) {
        known[static_cast<size_t>(scales - tensors_.data())] = true;
      }
    }
  });
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // transformers writes matrices of no rows for shared experts of which there are none.
    if (known[i] || tensors_[i].bytes == 0 || !model_.family->owns(spec(), tensors_[i].name)) continue;
    throw checkpoint_error({file_of(&tensors_[i]),
                            tensors_[i].name,
                            "not of the model in config.json",
                            size_text(spec()),
                            "another tensor",
                            kOtherModel,
                            {}});
  }
}

}  // namespace sida
