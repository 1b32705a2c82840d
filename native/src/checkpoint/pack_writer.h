#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack.h"

namespace sida {

/// Writes the dense and the expert file of a pack from a checkpoint, chunk by chunk: a caller can show progress, stop
/// between chunks and resume later. Files have their final names from the start. The directory becomes a pack when the
/// caller adds the manifest.
class PackWriter {
 public:
  /// `directory` exists. Opens the expert file without truncating it. Throws checkpoint_invalid or io_error. Writing
  /// also throws checkpoint_invalid where weights to be quantized are NaN or infinite.
  /// Without a format matrices have types that lose nothing. `in_place`: the experts stay in the checkpoint, as
  /// keeps_experts() allows.
  PackWriter(const std::string& checkpoint, const std::string& directory, std::optional<WeightFormat> experts,
             std::optional<WeightFormat> dense, bool in_place = false);
  /// The same with these types.
  PackWriter(Checkpoint checkpoint, const std::string& directory, PackFormats formats);
  ~PackWriter();
  PackWriter(const PackWriter&) = delete;
  PackWriter& operator=(const PackWriter&) = delete;

  const Pack& pack() const { return pack_; }
  void write_dense();
  /// Writes the blocks of experts [begin, end). Of experts that stay in the checkpoint only checks the scales.
  void write_experts(size_t begin, size_t end);
  /// fsyncs the file and frees the buffers.
  void close();

 private:
  void open(const std::string& directory, PackFormats formats);
  const Checkpoint& opened() const;
  void check_experts(size_t begin, size_t end);
  void write_dense_tensor(int fd, const std::string& path, const DenseTensor& tensor);
  void write_at(int fd, const std::string& path, uint64_t offset, const std::byte* data, uint64_t bytes);

  std::optional<Checkpoint> checkpoint_;
  Pack pack_;
  int expert_fd_ = -1;  ///< -1: closed, or the experts stay in the checkpoint
  std::vector<float> rows_;
  std::vector<std::byte> block_;
};

}  // namespace sida
