#include "expert/read_settings.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "expert/disk_speed.h"

namespace sida {
namespace {

using namespace std::chrono_literals;

/// Time that a start may spend on measuring the disk.
constexpr std::chrono::duration<double> kMeasuring = 40ms;
/// A smaller file says little about its disk, and its reads matter little.
constexpr uint64_t kTooSmallToMeasure = 16 << 20;
constexpr size_t kUsualDepth = 2;
constexpr uint64_t kUsualChunk = 1 << 20;

constexpr uint64_t kSmallestChunk = 256 << 10;
constexpr uint64_t kLargestChunk = 4 << 20;
/// Time to read one chunk: a demand waits for the chunk that a reader is moving. Shorter chunks leave the disk idle in
/// between.
constexpr double kChunkSeconds = 1e-3;
/// Reads in flight where a block takes several chunks: the disk stays busy only if the next chunk is queued when one
/// ends.
constexpr size_t kDepthOfChunks = 2;
constexpr uint64_t kMeasuredRead = 2 << 20;

}  // namespace

ReadSettings choose_read_settings(ExpertFile& file, uint64_t block_bytes, ReadTuning tuning) {
  ReadSettings settings{kUsualDepth, kUsualChunk};
  const bool all_fixed = tuning.depth > 0 && tuning.chunk_bytes > 0;
  if (!all_fixed && file.bytes() >= kTooSmallToMeasure) {
    const DiskSpeed speed = measure_disk_speed(file, std::min(block_bytes, kMeasuredRead), kMeasuring);
    const auto chunk = std::bit_floor(static_cast<uint64_t>(speed.bytes_per_second * kChunkSeconds));
    settings = {speed.depth, std::clamp(chunk, kSmallestChunk, kLargestChunk), speed.bytes_per_second};
  }
  if (block_bytes > settings.chunk_bytes) settings.depth = std::max(settings.depth, kDepthOfChunks);
  if (tuning.depth > 0) settings.depth = tuning.depth;
  if (tuning.chunk_bytes > 0) settings.chunk_bytes = tuning.chunk_bytes;
  return settings;
}

}  // namespace sida
