#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "expert/expert_layout.h"
#include "expert/host_tier.h"

namespace sida {

enum class TransferPriority { kDemand, kPrefetch };

/// A link slower than memory, for experiments: each transfer lasts at least latency + bytes / bandwidth.
struct SimulatedLink {
  double bandwidth = 0;  ///< bytes per second; 0 is no link
  double latency = 0;    ///< seconds
};

/// One thread that moves experts into device slots: demand before prefetch, first come first served.
class TransferEngine {
 public:
  /// Called on the transfer thread when a transfer ended; `error` is null on success.
  using Done = std::function<void(ExpertId, std::exception_ptr error)>;

  TransferEngine(const ExpertLayout& layout, HostTier& source, SimulatedLink link, Done done);
  ~TransferEngine();
  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// Does not block.
  void submit(ExpertId id, std::byte* slot, TransferPriority priority);
  /// Moves a waiting prefetch to the end of the demand queue. False when it no longer waits.
  bool promote(ExpertId id);
  /// Takes a waiting prefetch back. False when it no longer waits; `done` is then called as usual.
  bool cancel(ExpertId id);

 private:
  struct Transfer {
    ExpertId id;
    std::byte* slot;
  };

  void work();
  void move(const Transfer& transfer, TransferPriority priority);
  void fill_slot(const Transfer& transfer, TransferPriority priority);
  std::optional<Transfer> take_waiting_prefetch(ExpertId id);

  const ExpertLayout& layout_;
  HostTier& source_;
  SimulatedLink link_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Transfer> demand_;
  std::deque<Transfer> prefetch_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sida
