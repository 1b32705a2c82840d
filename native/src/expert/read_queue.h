#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "expert/expert_layout.h"
#include "expert/host_tier.h"

namespace sida {

enum class TransferPriority { kDemand, kPrefetch };

/// One expert on its way into a device slot.
struct Transfer {
  ExpertId id = 0;
  size_t layer = 0;
  uint64_t offset = 0;  ///< of its block in the file
  uint64_t bytes = 0;
  std::byte* slot = nullptr;
  /// Its block in the host tier, held; null where the disk is read.
  const std::byte* held = nullptr;
  /// Where a block from the disk is kept for the host tier; made by whoever moves the first chunk.
  HostTier::Block kept;
  std::once_flag keeping;

  // Of the queue.
  uint64_t taken = 0;
  size_t chunks_moving = 0;
  std::exception_ptr error;
};

/// A part of a transfer, moved at once.
struct TransferChunk {
  std::shared_ptr<Transfer> transfer;
  uint64_t begin = 0;
  uint64_t bytes = 0;
  TransferPriority priority = TransferPriority::kDemand;
};

/// The order in which one file is read. Demand before prefetch; each first come first served, but the experts
/// of one layer that come after another in the order of their offsets. Reads are chunks, so that what is
/// urgent waits for a chunk and not for a block; whole blocks that are neighbours in the file share one. Not
/// thread-safe.
class ReadQueue {
 public:
  explicit ReadQueue(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  void push(std::shared_ptr<Transfer> transfer, TransferPriority priority);
  /// Makes a prefetch a demand, also when a part of it has been read. False when none of it waits.
  bool promote(ExpertId id);
  /// Takes back a prefetch that has not begun; null when there is none.
  std::shared_ptr<Transfer> cancel(ExpertId id);

  bool empty() const { return demand_.empty() && prefetch_.empty(); }
  /// What to move next: chunks that follow one another in the file. Empty when nothing waits.
  std::vector<TransferChunk> take();
  /// Tells of a chunk that was taken. The transfer when it has ended with it, else null; after an error none
  /// of its other chunks is taken.
  std::shared_ptr<Transfer> finish(const TransferChunk& chunk, std::exception_ptr error);

  /// Demands that were read before the rest of a prefetch, since the last call.
  uint64_t take_overtakes() { return std::exchange(overtakes_, 0); }

 private:
  /// Well below IOV_MAX.
  static constexpr size_t kMaxChunks = 64;
  using Queue = std::deque<std::shared_ptr<Transfer>>;

  static Queue::iterator find(Queue& queue, ExpertId id);
  TransferChunk take_chunk(TransferPriority priority, uint64_t bytes);

  uint64_t chunk_bytes_;
  Queue demand_;
  Queue prefetch_;
  uint64_t overtakes_ = 0;
};

}  // namespace sida
