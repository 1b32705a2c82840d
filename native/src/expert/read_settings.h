#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "expert/expert_file.h"

namespace sida {

inline constexpr size_t kMaxReadDepth = 64;

/// The caller's choice of how the disk is read. 0: measured when the engine starts.
struct ReadTuning {
  size_t depth = 0;  ///< reads in flight
  /// A multiple of 4 KiB: the longest read, and the longest copy from the host tier.
  uint64_t chunk_bytes = 0;
};

/// How the file of experts is read.
struct ReadSettings {
  size_t depth = 1;
  uint64_t chunk_bytes = 0;
  double bytes_per_second = 0;  ///< as measured; 0 where it was not
};

/// Measured where `tuning` does not fix them. Throws io_error.
ReadSettings choose_read_settings(ExpertFile& file, uint64_t block_bytes, ReadTuning tuning);

}  // namespace sida
