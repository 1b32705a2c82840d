#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "expert/expert_file.h"
#include "expert/host_tier.h"
#include "expert/read_queue.h"
#include "expert/read_settings.h"
#include "expert/simulated_link.h"
#include "weights/expert_layout.h"

namespace sida {

struct ReadStats {
  uint64_t reads = 0;      ///< from disk
  uint64_t bytes = 0;      ///< read from disk
  uint64_t overtakes = 0;  ///< demands read before the rest of a prefetch
};

/// Moves experts into device slots. The file has a queue and as many readers as saturate its disk; the host tier has a
/// queue and one copying thread.
class TransferEngine {
 public:
  /// Called on a reader's thread when a transfer has ended; `error` is null on success.
  using Done = std::function<void(ExpertId, std::exception_ptr error)>;

  /// Measures the disk where `tuning` does not say how to read it. Throws io_error.
  TransferEngine(const ExpertLayout& layout, Backend& device, ExpertFile& disk, HostTier& host, SimulatedLink link,
                 ReadTuning tuning, Done done);
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  struct Request {
    ExpertId id;
    std::byte* slot;
  };
  /// Submit requests together where possible: neighbours in the file are read at once. Does not block.
  void submit(std::span<const Request> requests, TransferPriority priority);
  /// Turns a prefetch of which all or a part waits into a demand. False when there is none.
  bool promote(ExpertId id);
  /// Cancels a prefetch that has not begun. False when there is none; `done` is then called as usual.
  bool cancel(ExpertId id);

  const ReadSettings& settings() const { return settings_; }
  /// Of copies from the host tier, as measured.
  double seconds_per_copied_byte() const { return seconds_per_copied_byte_; }
  /// Prefetches that keep every reader busy. More would only take slots early.
  size_t prefetches_in_flight() const;
  /// Figures since the last call.
  ReadStats take_stats();

 private:
  /// A queue and the threads that serve it.
  struct Lane {
    Lane(uint64_t chunk_bytes, size_t depth) : queue(chunk_bytes), starting(static_cast<ptrdiff_t>(depth)) {}
    std::string name;
    ExpertFile* file = nullptr;  ///< null: copies out of the host tier
    std::mutex mutex;
    std::condition_variable wake;
    ReadQueue queue;
    bool stopping = false;
    ReadStats stats;
    std::latch starting;  ///< readers that do not run yet
    std::vector<std::thread> readers;
  };

  void add_lane(ExpertFile* file, size_t depth, uint64_t chunk_bytes);
  void work(Lane& lane, DeviceWriter& writer);
  void stop();
  /// The error of each chunk.
  std::vector<std::exception_ptr> move(Lane& lane, DeviceWriter& writer, std::span<const TransferChunk> chunks);
  void record(std::span<const TransferChunk> chunks, std::span<const std::exception_ptr> errors,
              uint64_t begin_ns) const;
  std::exception_ptr read(ExpertFile& file, DeviceWriter& writer, std::span<const TransferChunk> chunks);
  void keep_for_host(const TransferChunk& chunk, const std::byte* bytes);
  void end(Transfer& transfer, DeviceWriter& writer);
  void learn_copy(const Transfer& transfer);

  ExpertLayout layout_;
  Backend& device_;
  HostTier& host_;
  LinkClock link_;
  Done done_;
  ReadSettings settings_;
  /// The file's, then the host tier's where it is on.
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::atomic<double> seconds_per_copied_byte_;
  uint64_t last_copied_ns_ = 0;  ///< when the last copy from the host tier ended
};

}  // namespace sida
