#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/device_memory.h"
#include "expert/disk_tier.h"
#include "expert/expert_layout.h"

namespace sida {

/// Experts in host RAM in front of the disk: a read-through cache of whole blocks, least recently used out.
/// A budget below one block turns it off. Used by the transfer thread alone.
class HostTier {
 public:
  HostTier(const ExpertLayout& layout, DiskTier& disk, uint64_t budget);

  /// Copies expert `id` to `out` (block_bytes), from RAM where it is held. Blocks. Throws io_error.
  void read(ExpertId id, std::byte* out);

  uint64_t budget() const { return budget_; }
  uint64_t used() const { return experts_.load() * layout_.block_bytes; }
  uint64_t experts() const { return experts_; }

 private:
  struct Entry {
    std::list<ExpertId>::iterator age;
    std::unique_ptr<DeviceBuffer> block;
  };

  const ExpertLayout& layout_;
  DiskTier& disk_;
  uint64_t budget_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  std::list<ExpertId> by_age_;
  std::unordered_map<ExpertId, Entry> entries_;
  std::atomic<uint64_t> experts_{0};
};

}  // namespace sida
