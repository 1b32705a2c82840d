#include "expert/transfer_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "core/profile.h"

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

void TransferEngine::fill_slot(const Transfer& transfer, TransferPriority priority) {
  const auto layer = static_cast<int32_t>(transfer.id / layout_.experts_per_layer);
  const auto expert = static_cast<int32_t>(transfer.id % layout_.experts_per_layer);
  ProfileScope scope(priority == TransferPriority::kDemand ? ProfileOp::kDemand : ProfileOp::kPrefetch,
                     {.layer = layer, .expert = expert});
  const auto start = std::chrono::steady_clock::now();
  source_.read(transfer.id, transfer.slot);
  if (link_.bandwidth > 0 || link_.latency > 0) {
    const double wire = link_.bandwidth > 0 ? static_cast<double>(layout_.block_bytes) / link_.bandwidth : 0;
    wait_until(start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(link_.latency + wire)));
  }
  scope.moved(layout_.block_bytes);
}

void TransferEngine::move(const Transfer& transfer, TransferPriority priority) {
  std::exception_ptr error;
  try {
    fill_slot(transfer, priority);
  } catch (...) {
    error = std::current_exception();
  }
  // Moved: an exception is read by one thread and must not be freed by another.
  done_(transfer.id, std::move(error));
}

void TransferEngine::work() {
  profile_name_thread("transfers");
  for (;;) {
    Transfer transfer;
    TransferPriority priority{};
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || !demand_.empty() || !prefetch_.empty(); });
      if (stopping_) return;
      priority = demand_.empty() ? TransferPriority::kPrefetch : TransferPriority::kDemand;
      auto& queue = priority == TransferPriority::kDemand ? demand_ : prefetch_;
      transfer = queue.front();
      queue.pop_front();
    }
    move(transfer, priority);
  }
}

}  // namespace sida
