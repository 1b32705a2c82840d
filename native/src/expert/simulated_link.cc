#include "expert/simulated_link.h"

#include <algorithm>
#include <thread>

namespace sida {
namespace {

// A sleeping thread wakes up about this late. A fast link carries a chunk in less time.
constexpr std::chrono::microseconds kWakeUp{80};

void wait_until(LinkClock::Clock::time_point end) {
  std::this_thread::sleep_until(end - kWakeUp);
  while (LinkClock::Clock::now() < end) std::this_thread::yield();
}

}  // namespace

void LinkClock::carry(Clock::time_point start, uint64_t bytes, bool first) {
  if (link_.bandwidth <= 0 && link_.latency <= 0) return;
  const double wire = link_.bandwidth > 0 ? static_cast<double>(bytes) / link_.bandwidth : 0;
  const std::chrono::duration<double> seconds(wire + (first ? link_.latency : 0));
  Clock::time_point end;
  {
    std::lock_guard lock(mutex_);
    end = std::max(start, free_) + std::chrono::duration_cast<Clock::duration>(seconds);
    free_ = end;
  }
  wait_until(end);
}

}  // namespace sida
