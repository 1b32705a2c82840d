#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack.h"
#include "expert/disk_file.h"

namespace sida {

/// Whether the experts of a checkpoint can stay in it: it is a GGUF file in which each of their matrices is rows of
/// blocks, one after the other, and each of their biases f32.
bool keeps_experts(const Checkpoint& checkpoint);

/// The blocks of the experts of a pack whose experts stay in a GGUF file: reads the rows of their matrices past the
/// page cache and lays them out in panels. The blocks have the bytes that a pack of the file would have.
class GgufExperts final : public ExpertFile {
 public:
  /// Throws io_error, checkpoint_invalid, and pack_invalid where the file holds other experts.
  explicit GgufExperts(const Pack& pack);

  /// Takes buffers of any address and size.
  void read(uint64_t offset, std::span<iovec> buffers) override;
  using ExpertFile::read;

  const std::string& path() const override { return path_; }
  uint64_t bytes() const override { return starts_.back(); }
  bool direct() const override;

 private:
  /// Where rows or a bias of an expert begin.
  struct Source {
    uint32_t file;
    Dtype dtype;
    uint64_t offset;
  };

  void fill(uint64_t offset, uint64_t bytes, std::byte* out);
  /// Bytes [begin, end) of an expert's block.
  void fill_block(ExpertId id, uint64_t begin, uint64_t end, std::byte* out);
  void fill_matrix(const ExpertMatrix& matrix, const Source& source, uint64_t begin, uint64_t end, std::byte* out);
  /// Valid until the same thread reads again.
  const std::byte* source_bytes(const Source& source, uint64_t first, uint64_t bytes);

  std::string path_;
  ExpertLayout layout_;
  std::vector<std::unique_ptr<DiskFile>> files_;
  std::vector<uint64_t> starts_;  ///< by expert, and behind them the end
  std::vector<Source> sources_;   ///< by expert: of each matrix, then of each bias
};

/// The experts of a pack on disk. Throws as DiskFile and GgufExperts.
std::unique_ptr<ExpertFile> open_experts(const Pack& pack);

}  // namespace sida
