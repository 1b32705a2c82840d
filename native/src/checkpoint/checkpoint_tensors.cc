// The part of Checkpoint that checks which tensors its model needs.
#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_file.h"
#include "core/checkpoint_error.h"
#include "spec/families/gguf_tensors.h"

namespace sida {
namespace {

/// What the config of a model is, in errors.
const char* config_of(bool gguf) { return gguf ? "the metadata" : "config.json"; }

std::string other_model(bool gguf) { return std::string(config_of(gguf)) + " and the weights are of different models"; }

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

TensorSource Checkpoint::candidates_of(const TensorSlot& slot) const {
  return gguf_ ? model_.family->gguf->source(spec(), slot) : model_.family->source(spec(), slot);
}

bool Checkpoint::owns(std::string_view name) const {
  return gguf_ ? owns_gguf_tensor(spec(), name) : model_.family->owns(spec(), name);
}

const TensorInfo& Checkpoint::find_shaped(std::string_view name, const std::vector<uint64_t>& wanted) const {
  const TensorInfo* tensor = find(name);
  const std::vector<uint64_t> shape = gguf_ ? without_leading_ones(wanted) : wanted;
  if (tensor == nullptr) {
    throw checkpoint_error({file_of(nullptr),
                            name,
                            "missing tensor",
                            shape_text(shape),
                            "none",
                            other_model(gguf_) + ", or a file is incomplete",
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
                            other_model(gguf_), std::move(numbers)});
  }
  return *tensor;
}

const TensorInfo& Checkpoint::require(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo& tensor = find_shaped(name, shape);
  if (is_float(tensor.dtype) || is_blocked(tensor.dtype)) return tensor;
  throw checkpoint_error({file_of(&tensor),
                          name,
                          "dtype",
                          "F32, BF16 or F16",
                          dtype_name(tensor.dtype),
                          "quantised checkpoints are not supported",
                          {}});
}

const TensorInfo& Checkpoint::require_numbers(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo* found = find(name);
  if (found == nullptr || found->dtype != Dtype::kF8E4M3 || shape.size() < 2) return require(name, shape);
  if (model_.fp8) return find_shaped(name, shape);
  throw checkpoint_error({file_of(found),
                          name,
                          "dtype",
                          "F32, BF16 or F16",
                          dtype_name(found->dtype),
                          "config.json has no \"quantization_config\" that says FP8",
                          {}});
}

const TensorInfo* Checkpoint::block_scales_of(const TensorInfo& tensor) const {
  const std::string name = tensor.name + "_scale_inv";
  if (tensor.dtype != Dtype::kF8E4M3) {
    if (const TensorInfo* scales = find(name)) {
      throw checkpoint_error({file_of(scales),
                              name,
                              "scales of numbers that have none",
                              "a tensor of F8_E4M3",
                              "\"" + escape_text(tensor.name) + "\" of " + dtype_name(tensor.dtype),
                              "",
                              {}});
    }
    return nullptr;
  }
  std::vector<uint64_t> shape = tensor.shape;
  uint64_t* const sides = &shape[shape.size() - 2];
  sides[0] = (sides[0] + model_.fp8->rows - 1) / model_.fp8->rows;
  sides[1] = (sides[1] + model_.fp8->columns - 1) / model_.fp8->columns;
  return &require(name, shape);
}

const TensorInfo& Checkpoint::require_codes(std::string_view name, const std::vector<uint64_t>& shape) const {
  const TensorInfo& tensor = find_shaped(name, shape);
  if (tensor.dtype == Dtype::kU8) return tensor;
  throw checkpoint_error({file_of(&tensor), name, "dtype", "U8, codes of MXFP4", dtype_name(tensor.dtype), "", {}});
}

SlotData Checkpoint::source_of(const TensorSlot& slot) const {
  const TensorSource source = candidates_of(slot);
  const TensorSource::Candidate* taken = &source.candidates.front();
  for (const TensorSource::Candidate& candidate : source.candidates) {
    if (find(candidate.name) == nullptr) continue;
    taken = &candidate;
    break;
  }
  const std::vector<uint64_t>& shape = shape_of(*taken, slot);
  if (taken->scales.empty()) {
    SlotData data{.tensor = &require_numbers(taken->name, shape),
                  .first_row = taken->first_row,
                  .row_step = taken->row_step,
                  .transposed = taken->transposed,
                  .first_column = taken->first_column,
                  .paired_rows = taken->paired_rows,
                  .row_runs = taken->row_runs,
                  .column_runs = taken->column_runs,
                  .rows = slot.shape.front(),
                  .form = taken->form};
    data.block_scales = block_scales_of(*data.tensor);
    if (data.block_scales != nullptr) data.block = *model_.fp8;
    return data;
  }
  const std::vector<uint64_t> scales(shape.begin(), shape.end() - 1);
  return {&require_codes(taken->name, shape),   taken->first_row, taken->row_step, false, 0,
          &require_codes(taken->scales, scales)};
}

std::vector<std::string> Checkpoint::check_tensors() const {
  std::vector<bool> known(tensors_.size());
  for_each_slot(spec(), [&](const TensorSlot& slot) {
    source_of(slot);
    // Candidates that are present must have the right shape, even where another one is read.
    for (const TensorSource::Candidate& candidate : candidates_of(slot).candidates) {
      if (find(candidate.name) == nullptr) continue;
      const std::vector<uint64_t>& shape = shape_of(candidate, slot);
      const bool codes = !candidate.scales.empty();
      const TensorInfo& tensor = codes ? require_codes(candidate.name, shape) : require_numbers(candidate.name, shape);
      known[static_cast<size_t>(&tensor - tensors_.data())] = true;
      if (const TensorInfo* scales = codes ? find(candidate.scales) : block_scales_of(tensor)) {
        known[static_cast<size_t>(scales - tensors_.data())] = true;
      }
    }
  });
  std::vector<std::string> others;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    // transformers writes matrices of no rows for shared experts of which there are none.
    if (known[i] || tensors_[i].bytes == 0) continue;
    if (!owns(tensors_[i].name)) {
      others.push_back(tensors_[i].name);
      continue;
    }
    throw checkpoint_error({file_of(&tensors_[i]),
                            tensors_[i].name,
                            std::string("not of the model in ") + config_of(gguf_),
                            size_text(spec()),
                            "another tensor",
                            other_model(gguf_),
                            {}});
  }
  return others;
}

}  // namespace sida
