#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "expert/expert_layout.h"

namespace sida {

inline constexpr size_t kMaxStripes = 64;

/// Where an expert's block lies when the blocks are dealt round to several files, so that a layer's experts
/// come from all of them. One file is a pack without stripes.
class StripeLayout {
 public:
  /// `files` is 1 to kMaxStripes. Throws invalid_request.
  StripeLayout(size_t files, size_t experts, uint64_t block_bytes);

  struct Place {
    size_t file;
    uint64_t offset;
  };
  Place place(ExpertId id) const { return {id % files_, id / files_ * block_bytes_}; }

  size_t files() const { return files_; }
  uint64_t block_bytes() const { return block_bytes_; }
  /// Blocks in a file, of all experts or of the first `experts` alone.
  uint64_t blocks(size_t file) const { return blocks(file, experts_); }
  uint64_t blocks(size_t file, size_t experts) const { return (experts + files_ - 1 - file) / files_; }
  uint64_t file_bytes(size_t file) const { return blocks(file) * block_bytes_; }

  /// `experts.sida`, or `experts.sida.0`, `experts.sida.1`, … of several.
  std::string file_name(size_t file) const;

 private:
  size_t files_;
  size_t experts_;
  uint64_t block_bytes_;
};

}  // namespace sida
