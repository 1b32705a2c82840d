#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device/device_memory.h"
#include "weights/expert_layout.h"

namespace sida {

/// Experts in host RAM in front of the disk: a cache of whole blocks that evicts the least recently used one. A budget
/// below one block turns it off. Any thread may call it; callers copy into and out of its blocks.
class HostTier {
 public:
  using Block = std::unique_ptr<DeviceBuffer>;

  HostTier(uint64_t block_bytes, uint64_t budget, std::unique_ptr<Backend> backend = make_cpu_backend());

  /// The block of expert `id`, which is not evicted before release(); null where the tier does not hold it.
  const std::byte* hold(ExpertId id);
  void release(ExpertId id);

  /// A block to fill, for keep() or give_back(); null where no block and no memory is free.
  Block reserve();
  void keep(ExpertId id, Block block);
  void give_back(Block block);

  bool on() const { return budget_ >= block_bytes_; }
  /// Whether its budget has room for `count` experts, and the machine has not refused memory for them.
  bool holds(uint64_t count) const { return !short_ && count * device_bytes(block_bytes_) <= budget_; }
  uint64_t budget() const { return budget_; }
  /// Also counts blocks that are being filled or wait for an expert.
  uint64_t used() const { return memory_.used(); }
  uint64_t experts() const { return experts_; }

 private:
  struct Entry {
    std::list<ExpertId>::iterator age;
    Block block;
    size_t holders = 0;
  };

  Block take_oldest();

  uint64_t block_bytes_;
  uint64_t budget_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  std::mutex allocating_;
  std::mutex mutex_;
  uint64_t room_;  ///< blocks that may still be allocated
  std::vector<Block> spare_;
  std::list<ExpertId> by_age_;
  std::unordered_map<ExpertId, Entry> entries_;
  std::atomic<uint64_t> experts_{0};
  std::atomic<bool> short_{false};  ///< an allocation failed
};

}  // namespace sida
