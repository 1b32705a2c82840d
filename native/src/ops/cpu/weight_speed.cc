#include "ops/cpu/weight_speed.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"
#include "device/backend.h"
#include "ops/cpu/expert_ffn.h"
#include "ops/cpu/rounded_rows.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMostBytes = 256 << 20;
constexpr std::chrono::duration<double> kMeasuring{0.5};

/// Zeros.
class Memory {
 public:
  explicit Memory(uint64_t bytes) : bytes_(bytes), data_(backend_->allocate(bytes)) {
    if (data_ == nullptr) throw Error("out_of_memory", "no memory to measure with");
  }
  ~Memory() { backend_->deallocate(data_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  uint64_t bytes_;
  std::byte* data_;
};

}  // namespace

double measure_weight_speed(const ExpertLayout& layout, size_t top_k, ActivationFormat activations, size_t threads) {
  if (layout.experts() == 0) return 0;
  const ExpertShape& shape = layout.shape;
  const BlockLayout& block = layout.layers.front();
  const size_t count = std::clamp<size_t>(kMostBytes / block.bytes, 1, layout.experts());
  const Memory blocks(count * block.bytes);
  std::vector<float> x(shape.width, 1.0f), inputs(shape.width), hidden(2 * shape.hidden + 64), y(top_k * shape.width);
  const uint64_t rounded = rounded_bytes(1, std::max(shape.width, shape.hidden), activations);
  const Memory rounded_memory(std::max<uint64_t>(rounded, 4096));
  const ExpertScratch scratch{
      1, inputs.data(), hidden.data(), hidden.size(), {activations, {rounded_memory.data(), rounded}}};
  ThreadPool pool(threads);
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(1);
  double best = 0;
  // The first round warms up.
  const auto begin = Clock::now();
  for (int round = 0; round < 2 || Clock::now() - begin < kMeasuring; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    const auto start = Clock::now();
    for (size_t first = 0; first < count; first += top_k) {
      std::vector<ExpertRows> group;
      for (size_t i = first; i < std::min(first + top_k, count); ++i) {
        const std::byte* data = blocks.data() + order[i] * block.bytes;
        group.push_back({block.matrix(data, Projection::kGate), block.matrix(data, Projection::kUp),
                         block.matrix(data, Projection::kDown), nullptr, 1, &y[(i - first) * shape.width]});
      }
      expert_ffn(pool, group, x.data(), 1, shape.activation, scratch);
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (round > 0) best = std::max(best, static_cast<double>(count * block.bytes) / seconds);
  }
  return best;
}

}  // namespace sida
