#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weights/expert_layout.h"

namespace sida {

inline constexpr size_t kMaxStripes = 64;
/// Bytes of a stamp, so that a seal is one page.
inline constexpr size_t kMaxStamp = 1024;

struct Stripes {
  size_t count = 1;
  /// Text that the stripes of one pack share and no other pack has.
  std::string stamp;
};

/// `experts.sida`, or `experts.sida.0`, `experts.sida.1`, … of several.
std::string expert_file_name(const Stripes& stripes, size_t file);

/// Where an expert's block lies when the blocks are dealt out to several files in turn, so that a layer's experts come
/// from all files. A pack with one file has no stripes.
class StripeLayout {
 public:
  /// Of 1 to kMaxStripes files. Throws invalid_request.
  StripeLayout(Stripes stripes, const ExpertLayout& layout);
  /// The same of `experts` blocks of one size.
  StripeLayout(Stripes stripes, size_t experts, uint64_t block_bytes);

  struct Place {
    size_t file;
    uint64_t offset;
  };
  Place place(ExpertId id) const { return {id % files_, offsets_[id]}; }

  size_t files() const { return files_; }
  /// Where a file's blocks end and, with several files, its seal begins.
  uint64_t blocks_end(size_t file) const { return ends_[file]; }
  /// Where those of the first `count` experts end.
  uint64_t blocks_end(size_t file, size_t count) const;
  uint64_t file_bytes(size_t file) const { return blocks_end(file) + seal(file).size(); }
  /// The page at the end of a stripe that says which stripe it is, because stripes have the same size and are easily
  /// confused. Empty where there is one file.
  std::string seal(size_t file) const;

 private:
  explicit StripeLayout(Stripes stripes);
  /// The next expert's block.
  void add(uint64_t bytes);

  size_t files_;
  std::string stamp_;
  std::vector<uint64_t> offsets_;  ///< by expert
  std::vector<uint64_t> ends_;     ///< by file
};

}  // namespace sida
