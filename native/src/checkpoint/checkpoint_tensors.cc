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

const TensorInfo& Checkpoint::require(std::string_view name, const std::vector<uint64_t>& shape) const {
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
  if (!is_float(tensor->dtype)) {
    throw checkpoint_error({file_of(tensor),
                            name,
                            "dtype",
                            "F32, BF16 or F16",
                            dtype_name(tensor->dtype),
                            "quantised checkpoints are not supported",
                            {}});
  }
  return *tensor;
}

SlotData Checkpoint::source_of(const TensorSlot& slot) const {
  const TensorSource source = model_.family->source(spec(), slot);
  const TensorSource::Candidate* taken = &source.candidates.front();
  for (const TensorSource::Candidate& candidate : source.candidates) {
    if (find(candidate.name) == nullptr) continue;
    taken = &candidate;
    break;
  }
  return {&require(taken->name, shape_of(*taken, slot)), taken->first_row * slot.shape.back()};
}

void Checkpoint::check_tensors() const {
  std::vector<bool> known(tensors_.size());
  for_each_slot(spec(), [&](const TensorSlot& slot) {
    source_of(slot);
    // Candidates that are present must have the right shape, even where another one is read.
    for (const TensorSource::Candidate& candidate : model_.family->source(spec(), slot).candidates) {
      if (find(candidate.name) == nullptr) continue;
      known[static_cast<size_t>(&require(candidate.name, shape_of(candidate, slot)) - tensors_.data())] = true;
    }
  });
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (known[i] || !model_.family->owns(tensors_[i].name)) continue;
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
