#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "expert/expert_file.h"

namespace sida {

/// How to read a file: the fewest reads in flight that (nearly) saturate its disk, of reads of 1 MiB and more the most,
/// and the rate they reach.
struct DiskSpeed {
  size_t depth = 1;
  double bytes_per_second = 0;
  double best_bytes_per_second = 0;  ///< at any depth
};

/// Reads `read_bytes` (a multiple of 4 KiB) at offsets spread over the file, at each depth in turn. Takes about `limit`
/// in all; the last reads may run over it. Throws io_error.
DiskSpeed measure_disk_speed(ExpertFile& file, uint64_t read_bytes, std::chrono::duration<double> limit);
DiskSpeed measure_disk_speed(const std::string& path, uint64_t read_bytes, std::chrono::duration<double> limit);

}  // namespace sida
