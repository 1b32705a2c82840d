// How long does an expert that is fetched on demand take while prefetches keep the disk busy, and on an idle
// disk?
//   demand_latency_bench PACK [seconds] [read depth] [chunk bytes]     0: as the engine would choose
// Prints one line of JSON, times in milliseconds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "checkpoint/pack.h"
#include "expert/expert_store.h"

namespace {

using namespace sida;
using Clock = std::chrono::steady_clock;

constexpr size_t kSlots = 16;

double quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

class Demands {
 public:
  Demands(const Pack& pack, ReadTuning reads)
      : layout_(pack.experts),
        disk_(pack.stripe_layout(), pack.expert_paths()),
        host_(layout_.slot_bytes, 0),
        backend_(make_cpu_backend()),
        memory_(*backend_, kSlots * layout_.slot_bytes),
        store_(layout_, memory_, disk_, host_, {}, reads, kSlots),
        order_(layout_.experts()) {
    std::iota(order_.begin(), order_.end(), 0);
  }

  /// Milliseconds of one demand, for an expert that is neither resident nor loading.
  double one(bool busy) {
    std::shuffle(order_.begin(), order_.end(), random_);
    const ExpertId wanted = order_.back();
    const std::vector<double> keys(layout_.experts(), 5.0);
    std::vector<double> urgent = keys;
    // More than can be read before the demand comes; each may evict whatever is no load itself.
    const size_t count = busy ? std::min(kSlots - 2, order_.size() - 1) : 0;
    const std::span loads = std::span(order_).first(count);
    for (const ExpertId id : loads) urgent[id] = 0;
    // Experts of the last round are evicted first, above all the one that is wanted now.
    urgent[wanted] = 9;
    store_.start_pass({urgent, urgent, loads});
    const double share = std::uniform_real_distribution(0.1, 0.5)(random_);
    std::this_thread::sleep_for(std::chrono::duration<double>(busy ? share * seconds_for(count) : 0.002));
    if (store_.snapshot().state[wanted] != static_cast<uint8_t>(ResidencyState::kAbsent)) return -1;
    std::vector<uint8_t> found(layout_.shape.experts_per_layer);
    const uint16_t index = static_cast<uint16_t>(wanted % layout_.shape.experts_per_layer);
    const auto start = Clock::now();
    LayerVisit visit(store_, wanted / layout_.shape.experts_per_layer, {&index, 1}, found.data());
    visit.next();
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }

  /// Ends all transfers.
  void settle() {
    store_.start_pass({});
    for (;;) {
      const auto states = store_.snapshot().state;
      if (std::count(states.begin(), states.end(), static_cast<uint8_t>(ResidencyState::kLoading)) == 0) return;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

  const ReadSettings& settings() const { return store_.read_settings()[0]; }
  StoreStats stats() { return store_.take_stats(); }
  double own_ms = 0;

 private:
  double seconds_for(size_t blocks) const { return own_ms / 1000 * static_cast<double>(blocks); }

  ExpertLayout layout_;
  DiskTier disk_;
  HostTier host_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  ExpertStore store_;
  std::vector<ExpertId> order_;
  std::mt19937 random_{7};
};

std::vector<double> measure(Demands& demands, bool busy, double seconds) {
  std::vector<double> times;
  const auto start = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - start).count() < seconds || times.empty()) {
    const double ms = demands.one(busy);
    if (ms >= 0) times.push_back(ms);
    demands.settle();
  }
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: %s PACK [seconds] [depth] [chunk bytes]\n", argv[0]), 2;
  const auto argument = [&](int i, double fallback) { return argc > i ? std::atof(argv[i]) : fallback; };
  const double seconds = argument(2, 4) / 2;
  const Pack pack = open_pack(argv[1]);
  Demands demands(pack, {static_cast<size_t>(argument(3, 0)), static_cast<uint64_t>(argument(4, 0))});
  std::vector<double> idle = measure(demands, false, seconds);
  demands.own_ms = quantile(idle, 0.5);
  demands.stats();
  std::vector<double> busy = measure(demands, true, seconds);
  const StoreStats stats = demands.stats();
  std::printf(R"({"depth":%zu,"pieceBytes":%llu,"idle":{"demands":%zu,"p50":%.3f,"p99":%.3f},)"
              R"("busy":{"demands":%zu,"p50":%.3f,"p99":%.3f,"overtakes":%llu}})"
              "\n",
              demands.settings().depth, static_cast<unsigned long long>(demands.settings().chunk_bytes), idle.size(),
              quantile(idle, 0.5), quantile(idle, 0.99), busy.size(), quantile(busy, 0.5), quantile(busy, 0.99),
              static_cast<unsigned long long>(stats.overtakes));
}
