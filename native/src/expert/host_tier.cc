#include "expert/host_tier.h"

#include <utility>

#include "core/error.h"

namespace sida {

HostTier::HostTier(uint64_t block_bytes, uint64_t budget, std::unique_ptr<Backend> backend)
    : block_bytes_(block_bytes),
      budget_(budget),
      backend_(std::move(backend)),
      memory_(*backend_, budget),
      room_(budget / device_bytes(block_bytes)) {}

const std::byte* HostTier::hold(ExpertId id) {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  by_age_.splice(by_age_.end(), by_age_, found->second.age);
  ++found->second.holders;
  return found->second.block->data();
}

void HostTier::release(ExpertId id) {
  std::lock_guard lock(mutex_);
  --entries_.at(id).holders;
}

HostTier::Block HostTier::take_oldest() {
  for (const ExpertId id : by_age_) {
    const auto found = entries_.find(id);
    if (found->second.holders > 0) continue;
    Block block = std::move(found->second.block);
    by_age_.erase(found->second.age);
    entries_.erase(found);
    experts_ = entries_.size();
    return block;
  }
  return nullptr;
}

HostTier::Block HostTier::reserve() {
  {
    std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      Block block = std::move(spare_.back());
      spare_.pop_back();
      return block;
    }
    if (room_ == 0) return take_oldest();
    --room_;
  }
  try {
    // Allocated outside of mutex_: touching fresh memory is slow, and look-ups must not wait for it.
    std::lock_guard lock(allocating_);
    return std::make_unique<DeviceBuffer>(memory_, block_bytes_);
  } catch (const Error&) {
    // The machine has no more memory. A read must not fail because its copy finds no place, so the tier goes on with
    // the blocks it has.
    std::lock_guard lock(mutex_);
    room_ = 0;
    short_ = true;
    return take_oldest();
  }
}

void HostTier::keep(ExpertId id, Block block) {
  std::lock_guard lock(mutex_);
  by_age_.push_back(id);
  entries_.emplace(id, Entry{std::prev(by_age_.end()), std::move(block)});
  experts_ = entries_.size();
}

void HostTier::give_back(Block block) {
  std::lock_guard lock(mutex_);
  spare_.push_back(std::move(block));
}

}  // namespace sida
