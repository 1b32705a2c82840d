#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/spec.h"
#include "spec/tensors.h"

namespace sida {

class ConfigReader;
class GgufModel;

/// Rows or columns of a slot that follow each other in the tensor too.
struct Runs {
  uint64_t length = 1;
  /// Not 0: runs form groups of this many. The tensor has one group after the other. The slot has the first run of each
  /// group, then the second of each, and so on.
  uint64_t in_group = 0;

  /// The place in the tensor of the slot's run `run` of `count`.
  uint64_t place(uint64_t run, uint64_t count) const {
    if (in_group == 0) return run;
    const uint64_t groups = count / in_group;
    return run % groups * in_group + run / groups;
  }
  bool operator==(const Runs&) const = default;
};

/// How a checkpoint writes a slot's numbers.
enum class NumberForm : uint8_t {
  kSame,
  kLessOne,     ///< x - 1
  kLogOfMinus,  ///< log(-x)
};

/// Where a checkpoint may hold a slot's tensor.
struct TensorSource {
  struct Candidate {
    std::string name;
    /// Of the whole tensor, where the slot's is a part of it; empty: the slot's shape.
    std::vector<uint64_t> shape = {};
    /// The slot's first row in a tensor that holds several slots. All dimensions but the last count as rows.
    uint64_t first_row = 0;
    uint64_t row_step = 1;  ///< rows of the tensor from one run of the slot's rows to the next
    /// The slot's matrix (n, k) is the transpose of k rows of the tensor: its rows are columns from `first_column` on,
    /// `row_step` apart.
    bool transposed = false;
    uint64_t first_column = 0;
    /// Not empty: the tensor holds MXFP4 codes (.., k / 32, 16) in U8, low nibble first, and the one of this name their
    /// scales (.., k / 32), powers of two above 127. `shape` is that of the codes.
    std::string scales = {};
    /// Not 0: in each span of this many rows the tensor alternates between rows of the slot's first and second half.
    uint64_t paired_rows = 0;
    Runs row_runs = {};     ///< what `row_step` leads from one to the next of
    Runs column_runs = {};  ///< of the slot's columns; the tensor has all of them
    NumberForm form = NumberForm::kSame;
  };
  std::vector<Candidate> candidates;  ///< in order of preference: the first that the checkpoint has is used
};

/// A family's models in GGUF, as llama.cpp's converter writes them.
struct GgufForm {
  const char* architecture;  ///< general.architecture
  /// Whether a model of this architecture is of the family; null: all are.
  bool (*matches)(const GgufModel& model);
  /// The text of the config.json that a Hugging Face checkpoint of this model has. Throws checkpoint_invalid naming the
  /// key that is missing, out of range or asks for something unsupported.
  std::string (*config)(const GgufModel& model);
  TensorSource (*source)(const ModelSpec& spec, const TensorSlot& slot);
};

/// A model family: how its config becomes a spec, and where its checkpoints hold each slot. Each family has a folder;
/// docs/architecture.md describes how to add one.
struct Family {
  const char* model_type;  ///< in config.json
  /// Throws checkpoint_invalid naming the field that is out of range or asks for something unsupported.
  ModelSpec (*read_config)(const ConfigReader& config);
  TensorSource (*source)(const ModelSpec& spec, const TensorSlot& slot);
  /// Whether a tensor of this name is a weight, so that a checkpoint may hold it only where the config has a slot for
  /// it.
  bool (*owns)(const ModelSpec& spec, std::string_view name);
  const GgufForm* gguf = nullptr;  ///< null: llama.cpp has no such architecture
};

/// All families that this build knows.
std::span<const Family* const> families();
/// The family that a config's `model_type` names. Throws checkpoint_invalid with the known families where there is
/// none.
const Family& family_of(const ConfigReader& config);
/// The family of a GGUF file's model. Throws checkpoint_invalid with the known architectures where there is none.
const Family& family_of(const GgufModel& model);

}  // namespace sida
