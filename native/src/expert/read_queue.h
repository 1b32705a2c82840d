#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "expert/host_tier.h"
#include "weights/expert_layout.h"

namespace sida {

enum class TransferPriority { kDemand, kPrefetch };

/// One expert on its way into a device slot.
struct Transfer {
  ExpertId id = 0;
  size_t layer = 0;
  uint64_t offset = 0;  ///< of its block in the file
  uint64_t bytes = 0;
  std::byte* slot = nullptr;
  /// Its block in the host tier, on hold until release(); null where the transfer reads the disk.
  const std::byte* held = nullptr;
  /// The host tier's copy of a block from the disk; reserved by the thread that moves the transfer's first chunk.
  HostTier::Block kept;
  std::once_flag keeping;
  uint64_t began_ns = 0;  ///< when its first chunk was taken from the host tier's queue

  // Of the queue.
  uint64_t taken = 0;
  size_t chunks_moving = 0;
  std::exception_ptr error;
};

/// A part of a transfer that one read or copy moves.
struct TransferChunk {
  std::shared_ptr<Transfer> transfer;
  uint64_t begin = 0;
  uint64_t bytes = 0;
  TransferPriority priority = TransferPriority::kDemand;
};

/// The order in which one file is read. Demands go before prefetches. Within each, transfers keep the order of their
/// arrival, except that consecutive transfers of one layer are sorted by offset. Blocks are read in chunks, so that a
/// demand waits for one chunk and not for a whole block; blocks that are neighbours in the file share a read. Not
/// thread-safe.
class ReadQueue {
 public:
  explicit ReadQueue(uint64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}

  void push(std::shared_ptr<Transfer> transfer, TransferPriority priority);
  /// Turns a prefetch into a demand, also when a part of it has been read. False when nothing of it waits.
  bool promote(ExpertId id);
  /// Removes a prefetch that has not begun; null when there is none.
  std::shared_ptr<Transfer> cancel(ExpertId id);

  bool empty() const { return demand_.empty() && prefetch_.empty(); }
  /// The chunks to move next, which follow one another in the file. Empty when nothing waits.
  std::vector<TransferChunk> take();
  /// Reports that a chunk has moved or failed. Returns the transfer where this was its last chunk, else null. After an
  /// error take() gives no further chunk of the transfer.
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
