#pragma once

#include "expert/disk_file.h"
#include "expert/expert_store.h"
#include "support/test.h"

namespace sida {

inline constexpr size_t kLayers = 3;
inline constexpr size_t kExperts = 6;

inline ExpertLayout small_layout(size_t layers, size_t experts) {
  return make_expert_layout({16, 32, Activation::kRelu, layers, experts}, kF32Format);
}

/// A store of 18 experts whose blocks are filled with their id.
class StoreFixture {
 public:
  explicit StoreFixture(size_t slots, uint64_t host_bytes = 0, ReadTuning reads = {})
      : layout(small_layout(kLayers, kExperts)),
        backend(make_cpu_backend()),
        memory(*backend, slots * layout.slot_bytes) {
    std::ofstream file(path);
    for (uint32_t id = 0; id < layout.experts(); ++id) {
      const std::vector<uint32_t> block(layout.slot_bytes / 4, id);
      file.write(reinterpret_cast<const char*>(block.data()), static_cast<long>(layout.slot_bytes));
    }
    file.close();
    disk.emplace(path, layout.blocks_end(layout.experts()));
    host.emplace(layout.slot_bytes, host_bytes);
    store.emplace(layout, memory, *disk, *host, SimulatedLink{}, reads, slots);
  }

  /// Uses experts of a layer; checks that each block is the right one. How each was found.
  std::vector<Found> visit(size_t layer, std::vector<uint16_t> needed) {
    std::vector<uint8_t> found(kExperts);
    std::vector<uint16_t> seen;
    {
      LayerVisit visit(*store, layer, needed, found.data());
      while (const auto expert = visit.next()) {
        seen.push_back(expert->index);
        const auto* words = reinterpret_cast<const uint32_t*>(expert->block);
        const uint32_t id = static_cast<uint32_t>(layer * kExperts) + expert->index;
        REQUIRE(std::all_of(words, words + layout.slot_bytes / 4, [&](uint32_t word) { return word == id; }));
        REQUIRE(memory.used() <= memory.budget());
      }
    }
    std::sort(seen.begin(), seen.end());
    CHECK(seen == needed);
    store->check_integrity();
    std::vector<Found> codes;
    for (const uint8_t code : found) codes.push_back(static_cast<Found>(code));
    return codes;
  }

  /// A plan by its exceptions: an expert's key is 5, the same before and after its use, where not said
  /// otherwise.
  void start_pass(const std::vector<ExpertId>& loads, const std::map<ExpertId, double>& keys = {},
                  const std::map<ExpertId, double>& after = {}, double expendable = 0) {
    std::vector<double> before(layout.experts(), 5.0);
    for (const auto& [id, key] : keys) before[id] = key;
    std::vector<double> later = before;
    for (const auto& [id, key] : after) later[id] = key;
    for (const ExpertId id : loads) {
      if (!keys.contains(id)) before[id] = 0;
    }
    store->start_pass({before, later, loads, expendable});
  }

  ResidencyState state(ExpertId id) const { return static_cast<ResidencyState>(store->snapshot().state[id]); }
  /// The resident experts, once nothing is on its way.
  std::vector<ExpertId> residents() const {
    settle();
    std::vector<ExpertId> ids;
    for (ExpertId id = 0; id < layout.experts(); ++id) {
      if (state(id) == ResidencyState::kResident) ids.push_back(id);
    }
    return ids;
  }

  /// Waits until nothing is on its way.
  void settle() const {
    for (;;) {
      const auto states = store->snapshot().state;
      if (std::count(states.begin(), states.end(), static_cast<uint8_t>(ResidencyState::kLoading)) == 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  testing::TempDir dir;
  std::string path = dir.path() + "/experts.sida";
  ExpertLayout layout;
  std::unique_ptr<Backend> backend;
  DeviceMemory memory;
  std::optional<DiskFile> disk;
  std::optional<HostTier> host;
  std::optional<ExpertStore> store;
};

}  // namespace sida
