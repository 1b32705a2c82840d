#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace sida {

/// A link slower than memory, for experiments: each transfer lasts at least latency + bytes / bandwidth.
struct SimulatedLink {
  double bandwidth = 0;  ///< bytes per second; 0 is no link
  double latency = 0;    ///< seconds
};

/// The clock of a simulated link, which carries one transfer after the other for any number of threads.
class LinkClock {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LinkClock(SimulatedLink link) : link_(link) {}

  /// Blocks until the link has carried `bytes` that were submitted at `start`. `first`: these are a transfer's first
  /// bytes, which also wait for the latency.
  void carry(Clock::time_point start, uint64_t bytes, bool first);

 private:
  SimulatedLink link_;
  std::mutex mutex_;
  Clock::time_point free_{};
};

}  // namespace sida
