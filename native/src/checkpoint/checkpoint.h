#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_files.h"
#include "checkpoint/tensor_info.h"
#include "core/file.h"

namespace sida {

/// Where a checkpoint holds the values of a slot.
struct SlotData {
  const TensorInfo* tensor;
  uint64_t first_row;  ///< of the tensor's rows, whose length is that of its last dimension, or k where it is MXFP4
  uint64_t row_step = 1;
  /// The slot's matrix (n, k) is the transpose of the tensor's k rows from `first_row` on, its rows every `row_step`th
  /// column from `first_column` on.
  bool transposed = false;
  uint64_t first_column = 0;
  const TensorInfo* scales = nullptr;  ///< of MXFP4 codes; null: the tensor holds numbers
  /// Not 0: in each span of this many rows the tensor alternates between rows of the slot's first and second half.
  uint64_t paired_rows = 0;
  const TensorInfo* block_scales = nullptr;  ///< of the blocks of FP8 numbers
  Fp8Block block = {};                       ///< where there are such scales
  Runs row_runs = {}, column_runs = {};      ///< as in TensorSource::Candidate
  uint64_t rows = 0;                         ///< of the slot
  NumberForm form = NumberForm::kSame;

  /// Whether rows of the slot follow each other in the tensor.
  bool in_order() const { return row_step == 1 && row_runs == Runs{} && paired_rows == 0; }
};

/// An open file of weights.
struct WeightFile {
  File file;
  std::string display;  ///< names it in errors
};

/// A Hugging Face checkpoint directory: config.json, generation_config.json where there is one, and either
/// model.safetensors or the shards of its index. Without them, pytorch_model.bin or the shards of its index.
/// Or a GGUF file, with the other parts where it is one of several. Nothing outside the directory is opened (the blobs
/// of a Hugging Face cache count as inside). Reads block and may come from any number of threads.
class Checkpoint {
 public:
  /// Opens and checks config, index and every header. Throws io_error or checkpoint_invalid.
  static Checkpoint open(const std::string& model);

  Checkpoint(Checkpoint&&) = default;
  Checkpoint& operator=(Checkpoint&&) = default;

  const ModelSpec& spec() const { return model_.spec; }
  bool gguf() const { return gguf_; }
  const std::vector<WeightFile>& files() const { return files_; }
  /// Ordered by name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  size_t tensor_count() const { return tensors_.size(); }
  /// Bytes of all tensors.
  uint64_t total_bytes() const;
  /// "fp8" where there are FP8 tensors; "f32", "bf16" or "f16" where all floating tensors are of that type; else
  /// "mixed".
  std::string dtype_summary() const;

  /// Null where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  /// Throws checkpoint_invalid where the tensor is missing, has another shape or is of a type that is no number's.
  const TensorInfo& require(std::string_view name, const std::vector<uint64_t>& shape) const;

  /// The same of a slot's numbers, which may also be FP8 where the config says so.
  const TensorInfo& require_numbers(std::string_view name, const std::vector<uint64_t>& shape) const;
  /// The scales of an FP8 tensor's blocks; null where the tensor has another type. Throws checkpoint_invalid where they
  /// are missing, misshapen or of no FP8 tensor.
  const TensorInfo* block_scales_of(const TensorInfo& tensor) const;

  /// The same of codes that are read as they are: the tensor must be U8.
  const TensorInfo& require_codes(std::string_view name, const std::vector<uint64_t>& shape) const;

  /// The first of the names of a slot's tensor that the checkpoint has. Throws as require().
  SlotData source_of(const TensorSlot& slot) const;

  /// Throws checkpoint_invalid where a tensor that the model needs is missing or misshapen, or where the files hold
  /// layers or experts that the config does not have. Returns the names of tensors that the model
  /// does not use, such as a vision tower's.
  std::vector<std::string> check_tensors() const;

  /// Reads data as floats; the second form reads elements [first, first + count). Throws io_error
  /// where the file fails, checkpoint_invalid where it has changed since it was opened or a block's scale is no number.
  void read_f32(const TensorInfo& tensor, float* out) const;
  void read_f32(const TensorInfo& tensor, uint64_t first, uint64_t count, float* out) const;
  /// Bytes [first, first + count) of a tensor's data. Throws as read_f32().
  void read_bytes(const TensorInfo& tensor, uint64_t first, uint64_t count, void* out) const;

 private:
  Checkpoint() = default;
  void open_directory();
  void open_gguf_file();
  template <typename Opened>
  void take(std::vector<Opened> files);
  void index_tensors();
  TensorSource candidates_of(const TensorSlot& slot) const;
  bool owns(std::string_view name) const;
  const TensorInfo& find_shaped(std::string_view name, const std::vector<uint64_t>& shape) const;
  std::string file_of(const TensorInfo* tensor) const;

  std::string path_;
  bool gguf_ = false;
  ModelFiles model_;
  std::vector<WeightFile> files_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace sida
