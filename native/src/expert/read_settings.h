#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expert/disk_tier.h"

namespace sida {

inline constexpr size_t kMaxReadDepth = 64;

/// The caller's choice of how the disks are read. 0: measured when the engine starts.
struct ReadTuning {
  size_t depth = 0;  ///< reads in flight for each file
  /// A multiple of 4 KiB: the longest read, and the longest copy from the host tier.
  uint64_t chunk_bytes = 0;
};

/// How one file is read.
struct ReadSettings {
  size_t depth = 1;
  uint64_t chunk_bytes = 0;
  double bytes_per_second = 0;  ///< as measured; 0 where it was not
};

/// Settings for each file, measured where `tuning` does not fix them. Throws io_error.
std::vector<ReadSettings> choose_read_settings(DiskTier& disk, uint64_t block_bytes, ReadTuning tuning);

}  // namespace sida
