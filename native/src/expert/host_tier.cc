#include "expert/host_tier.h"

#include <cstring>
#include <utility>

namespace sida {

HostTier::HostTier(const ExpertLayout& layout, DiskTier& disk, uint64_t budget)
    : layout_(layout),
      disk_(disk),
      budget_(budget),
      backend_(make_cpu_backend()),
      memory_(*backend_, budget) {}

void HostTier::read(ExpertId id, std::byte* out) {
  const uint64_t bytes = layout_.block_bytes;
  if (auto found = entries_.find(id); found != entries_.end()) {
    by_age_.splice(by_age_.end(), by_age_, found->second.age);
    std::memcpy(out, found->second.block->data(), bytes);
    return;
  }
  disk_.read(id * bytes, bytes, out);
  if (budget_ < bytes) return;
  std::unique_ptr<DeviceBuffer> block;
  if (memory_.used() + bytes > budget_) {
    auto oldest = entries_.find(by_age_.front());
    block = std::move(oldest->second.block);
    entries_.erase(oldest);
    by_age_.pop_front();
  } else {
    block = std::make_unique<DeviceBuffer>(memory_, bytes);
  }
  std::memcpy(block->data(), out, bytes);
  by_age_.push_back(id);
  entries_.emplace(id, Entry{std::prev(by_age_.end()), std::move(block)});
  experts_ = entries_.size();
}

}  // namespace sida
