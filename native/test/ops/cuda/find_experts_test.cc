// The kernel that finds a layer's experts against the host's sort_choices() and a plain choice of victims.
#ifdef SIDA_WITH_CUDA

#include "ops/cuda/find_experts.h"

#include <algorithm>
#include <random>
#include <utility>

#include "device/cuda/cuda_handles.h"
#include "ops/dispatch.h"
#include "support/device_copy.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

constexpr size_t kTableLayers = 3, kTableExperts = 20, kBlockBytes = 4096 + 16;
constexpr size_t kAll = kTableLayers * kTableExperts;

/// A slot's expert and a table of all, in the host's memory.
struct Plain {
  std::vector<uint32_t> slot_of = std::vector<uint32_t>(kAll, kNothing);
  std::vector<TableExpert> experts = std::vector<TableExpert>(kAll);
  std::vector<TableSlot> slots;
  std::vector<ExpertId> prefetches;
  double expendable = 0;
  uint64_t clock = 0;
  bool newest_first = false;

  double key(ExpertId id, ExpertId end, uint64_t began) const {
    if (experts[id].last_use > began) return experts[id].key_after;
    return id < end ? experts[id].key_unneeded : experts[id].key;
  }

  /// The slot of the next victim for a layer of experts up to `end` that needs `needed`.
  uint32_t victim(ExpertId end, const std::vector<ExpertId>& needed) const {
    uint32_t best = kNothing;
    const auto before = [&](const TableSlot& a, const TableSlot& b) {
      if ((a.expert == kNothing) != (b.expert == kNothing)) return a.expert == kNothing;
      if (a.expert == kNothing) return false;
      const double x = key(a.expert, end, clock), y = key(b.expert, end, clock);
      if (x != y) return x > y;
      const uint64_t p = experts[a.expert].last_use, q = experts[b.expert].last_use;
      if (p != q) return newest_first ? p > q : p < q;
      return newest_first ? a.expert < b.expert : a.expert > b.expert;
    };
    for (uint32_t slot = 0; slot < slots.size(); ++slot) {
      if (slots[slot].fixed != 0 || std::ranges::find(needed, slots[slot].expert) != needed.end()) continue;
      if (best == kNothing || before(slots[slot], slots[best])) best = slot;
    }
    return best;
  }

  /// Gives the slot to the expert. The one that had it.
  ExpertId fill(uint32_t slot, ExpertId id) {
    const ExpertId evicted = std::exchange(slots[slot].expert, id);
    if (evicted != kNothing) slot_of[evicted] = kNothing;
    slot_of[id] = slot;
    return evicted;
  }

  /// The prefetch that takes a victim's slot; the end of the list: none.
  std::vector<ExpertId>::iterator prefetch_into(uint32_t slot, ExpertId end) {
    if (slot == kNothing) return prefetches.end();
    const ExpertId victim = slots[slot].expert;
    if (victim != kNothing && key(victim, end, clock) < expendable) return prefetches.end();
    return std::ranges::find_if(prefetches, [&](ExpertId id) {
      return slot_of[id] == kNothing && experts[id].last_use <= clock &&
             (victim == kNothing || key(id, end, clock) < key(victim, end, clock));
    });
  }
};

/// The memory of a pass on the device.
struct OnDevice {
  explicit OnDevice(const Plain& plain)
      : table(std::vector<std::byte>(cuda::table_bytes(kAll))),
        logs(make_cuda_host_array<LayerLog>(kTableLayers)),
        slot_memory(std::vector<std::byte>(plain.slots.size() * kBlockBytes)) {
    std::vector<std::byte> bytes(cuda::table_bytes(kAll));
    const cuda::DeviceTable at = cuda::table_at(bytes.data(), kAll);
    *at.head = {.clock = plain.clock,
                .expendable = plain.expendable,
                .slots = static_cast<uint32_t>(plain.slots.size()),
                .prefetches = static_cast<uint32_t>(plain.prefetches.size()),
                .newest_first = plain.newest_first ? 1U : 0U,
                .stopped = 0};
    std::ranges::copy(plain.prefetches, at.prefetches);
    std::ranges::copy(plain.slot_of, at.slot_of);
    std::ranges::copy(plain.experts, at.experts);
    std::ranges::copy(plain.slots, at.slots);
    for (size_t slot = 0; slot < plain.slots.size(); ++slot) {
      at.slots[slot].block = slot_memory.data() + slot * kBlockBytes;
    }
    table.write(bytes);
    choices = {expert.data(), alpha.data(), order.data(), positions.data(),
               alphas.data(), moves.data(), count.data(), reinterpret_cast<cuda::ProductRows*>(products.data())};
  }

  DeviceCopy<std::byte> table;
  CudaHostArray<LayerLog> logs;
  DeviceCopy<std::byte> slot_memory;
  DeviceCopy<uint16_t> expert{std::vector<uint16_t>(kMostDeviceChoices)};
  DeviceCopy<float> alpha{std::vector<float>(kMostDeviceChoices)}, alphas{std::vector<float>(kMostDeviceChoices)};
  DeviceCopy<uint32_t> order{std::vector<uint32_t>(kMostDeviceChoices)},
      positions{std::vector<uint32_t>(kMostDeviceChoices)}, count{std::vector<uint32_t>(2)};
  DeviceCopy<cuda::ExpertMove> moves{std::vector<cuda::ExpertMove>(cuda::kMostMoves)};
  DeviceCopy<std::byte> products{std::vector<std::byte>(cuda::listed_products_bytes())};
  cuda::DeviceChoices choices{};
};

TEST_CASE(
    "cuda find experts: a plain search gives the same order, slots, victims, copies and prefetches of random layers") {
  std::mt19937 random(5);
  const auto below = [&](size_t count) { return static_cast<uint32_t>(random() % count); };
  const CudaHostArray<std::byte> blocks = make_cuda_host_array<std::byte>(kAll * kBlockBytes);
  for (ExpertId id = 0; id < kAll; ++id)
    std::memset(blocks.get() + id * kBlockBytes, static_cast<int>(id), kBlockBytes);
  size_t prefetched = 0;
  for (int round = 0; round < 120; ++round) {
    CASE(round);
    const size_t k = 1 + below(4), tokens = 1 + below(16), most = std::min(tokens * k, kTableExperts);
    Plain plain;
    plain.clock = 1000;
    plain.newest_first = below(4) == 0;
    plain.slots.resize(most + below(below(2) == 0 ? 4 : kAll - most));
    for (TableExpert& expert : plain.experts) {
      const auto id = static_cast<size_t>(&expert - plain.experts.data());
      // Few values, so that some are equal.
      const auto number = [&] { return below(8) == 0 ? 1.0 / 0.0 : static_cast<double>(below(5)); };
      expert = {blocks.get() + id * kBlockBytes, below(4), number(), number(), number()};
    }
    std::vector<ExpertId> ids(kAll);
    for (ExpertId id = 0; id < kAll; ++id) ids[id] = id;
    std::ranges::shuffle(ids, random);
    size_t fixed = 0;
    for (uint32_t slot = 0; slot < plain.slots.size(); ++slot) {
      const bool free = below(5) == 0;
      plain.slots[slot] = {nullptr, free ? kNothing : ids[slot], 0};
      if (free) continue;
      plain.slot_of[ids[slot]] = slot;
      if (plain.slots.size() - fixed > most && below(4) == 0) ++fixed, plain.slots[slot].fixed = kNothing;
    }
    const bool lacks = below(6) == 0;
    if (lacks) {
      for (ExpertId id = 0; id < kAll; ++id) {
        if (plain.slot_of[id] == kNothing && below(3) == 0) plain.experts[id].host = nullptr;
      }
    }
    plain.expendable = below(4);
    std::ranges::shuffle(ids, random);
    for (const ExpertId id : std::span(ids).first(below(4) == 0 ? 0 : below(kAll))) {
      if (plain.experts[id].host != nullptr) plain.prefetches.push_back(id);
    }
    OnDevice device(plain);
    const cuda::DeviceTable on_device = cuda::table_at(device.table.data(), kAll);
    bool stopped = false;
    for (uint32_t turn = 0; turn < kTableLayers; ++turn) {
      CASE(turn);
      Dispatch dispatch;
      dispatch.k = k;
      for (size_t token = 0; token < tokens; ++token) {
        std::vector<uint16_t> all(kTableExperts);
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
        std::ranges::shuffle(all, random);
        dispatch.expert.insert(dispatch.expert.end(), all.begin(), all.begin() + static_cast<long>(k));
      }
      const size_t count = dispatch.expert.size();
      dispatch.alpha = random_floats(count, static_cast<unsigned>(random()));
      std::vector<uint16_t> expert(kMostDeviceChoices);
      std::vector<float> alpha(kMostDeviceChoices);
      std::ranges::copy(dispatch.expert, expert.begin());
      std::ranges::copy(dispatch.alpha, alpha.begin());
      device.expert.write(expert);
      device.alpha.write(alpha);
      const ExpertId first = static_cast<ExpertId>(turn * kTableExperts), end = first + kTableExperts;
      cuda::FindTask task{};
      task.table = on_device;
      task.choices = device.choices;
      task.log = &device.logs[turn];
      task.count = static_cast<uint32_t>(count);
      task.k = static_cast<uint32_t>(k);
      task.most = static_cast<uint32_t>(most);
      task.turn = turn;
      task.first = first;
      task.end = end;
      cuda::find_experts(task, nullptr);
      cuda::move_experts(device.choices, kBlockBytes, nullptr);
      cuda::move_prefetches(device.choices, kBlockBytes, nullptr);
      require_success(cudaDeviceSynchronize());

      sort_choices(kTableExperts, RouterSpec::kNoCapacity, {}, dispatch);
      const std::vector<uint32_t> order = device.order.read(), positions = device.positions.read();
      const std::vector<float> alphas = device.alphas.read();
      CHECK(std::ranges::equal(dispatch.order, std::span(order).first(count)));
      for (size_t token = 0; token < tokens; ++token) {
        std::vector<uint32_t> own;
        for (uint32_t place = 0; place < count; ++place) {
          if (dispatch.order[place] / k == token) own.push_back(place);
        }
        for (size_t i = 0; i < k; ++i) {
          CHECK(positions[token * k + i] == own[i]);
          CHECK(alphas[token * k + i] == dispatch.alpha[dispatch.order[own[i]]]);
        }
      }
      const LayerLog& log = device.logs[turn];
      CHECK(std::ranges::equal(dispatch.expert, std::span(log.expert).first(count)));
      std::vector<ExpertId> needed;
      for (const uint16_t index : dispatch.needed) needed.push_back(first + index);
      stopped = stopped || std::ranges::any_of(needed, [&](ExpertId id) {
                  return plain.slot_of[id] == kNothing && plain.experts[id].host == nullptr;
                });
      CHECK(log.stopped == (stopped ? 1 : 0));
      const std::vector<std::byte> memory = device.slot_memory.read();
      const auto check_move = [&](const MovedExpert& move, ExpertId id, uint32_t slot) {
        CHECK(move.id == id);
        CHECK(move.slot == slot);
        CHECK(move.evicted == plain.fill(slot, id));
        CHECK(std::ranges::all_of(std::span(memory).subspan(slot * kBlockBytes, kBlockBytes),
                                  [&](std::byte byte) { return byte == static_cast<std::byte>(id); }));
      };
      size_t moves = 0;
      for (size_t i = 0; i < needed.size(); ++i) {
        plain.experts[needed[i]].last_use = plain.clock + turn * kMostDeviceChoices + 1 + i;
      }
      for (const ExpertId id : needed) {
        if (stopped || plain.slot_of[id] != kNothing) continue;
        REQUIRE(moves < log.moves);
        check_move(log.moved[moves++], id, plain.victim(end, needed));
      }
      CHECK(log.moves == moves);
      std::vector<uint32_t> filled;
      while (!stopped && filled.size() < kMostLayerPrefetches) {
        const uint32_t slot = plain.victim(end, needed);
        const auto next = plain.prefetch_into(slot, end);
        if (next == plain.prefetches.end()) break;
        REQUIRE(filled.size() < log.prefetches);
        check_move(log.prefetched[filled.size()], *next, slot);
        for (double TableExpert::*key : {&TableExpert::key, &TableExpert::key_unneeded}) {
          double& own = plain.experts[*next].*key;
          if (own >= plain.expendable) own -= plain.expendable;
        }
        plain.prefetches.erase(next);
        filled.push_back(slot);
        plain.slots[slot].fixed = 1;  // until the next layer
      }
      CHECK(log.prefetches == filled.size());
      for (const uint32_t slot : filled) plain.slots[slot].fixed = 0;
      prefetched += filled.size();
    }
  }
  CHECK(prefetched > 0);
}

TEST_SUITE_END();

}  // namespace
#endif
