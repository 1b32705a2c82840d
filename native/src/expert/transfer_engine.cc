#include "expert/transfer_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace sida {
namespace {

// A sleeping thread wakes about this late, which is longer than a fast link takes for a block.
constexpr std::chrono::microseconds kWakeUp{80};

void wait_until(std::chrono::steady_clock::time_point end) {
  std::this_thread::sleep_until(end - kWakeUp);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

TransferEngine::TransferEngine(const ExpertLayout& layout, HostTier& source, SimulatedLink link, Done done)
    : layout_(layout), source_(source), link_(link), done_(std::move(done)), thread_([this] { work(); }) {}

TransferEngine::~TransferEngine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void TransferEngine::submit(ExpertId id, std::byte* slot, TransferPriority priority) {
  {
    std::lock_guard lock(mutex_);
    (priority == TransferPriority::kDemand ? demand_ : prefetch_).push_back({id, slot});
  }
  wake_.notify_one();
}

std::optional<TransferEngine::Transfer> TransferEngine::take_waiting_prefetch(ExpertId id) {
  const auto found =
      std::find_if(prefetch_.begin(), prefetch_.end(), [&](const auto& t) { return t.id == id; });
  if (found == prefetch_.end()) return std::nullopt;
  const Transfer transfer = *found;
  prefetch_.erase(found);
  return transfer;
}

bool TransferEngine::promote(ExpertId id) {
  std::lock_guard lock(mutex_);
  const auto transfer = take_waiting_prefetch(id);
  if (transfer) demand_.push_back(*transfer);
  return transfer.has_value();
}

bool TransferEngine::cancel(ExpertId id) {
  std::lock_guard lock(mutex_);
  return take_waiting_prefetch(id).has_value();
}

void TransferEngine::move(const Transfer& transfer) {
  const auto start = std::chrono::steady_clock::now();
  std::exception_ptr error;
  try {
    source_.read(transfer.id, transfer.slot);
  } catch (...) {
    error = std::current_exception();
  }
  if (link_.bandwidth > 0 || link_.latency > 0) {
    const double wire = link_.bandwidth > 0 ? static_cast<double>(layout_.block_bytes) / link_.bandwidth : 0;
    wait_until(start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(link_.latency + wire)));
  }
  // Moved: an exception is read by one thread and must not be freed by another.
  done_(transfer.id, std::move(error));
}

void TransferEngine::work() {
  for (;;) {
    Transfer transfer;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !demand_.empty() || !prefetch_.empty(); });
      if (stopping_) return;
      auto& queue = demand_.empty() ? prefetch_ : demand_;
      transfer = queue.front();
      queue.pop_front();
    }
    move(transfer);
  }
}

}  // namespace sida
