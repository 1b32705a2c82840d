#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "model/kv_cache.h"
#include "model/model_weights.h"
#include "ops/ops.h"
#include "support/devices.h"
#include "support/random_floats.h"
#ifdef SIDA_WITH_CUDA
#include "support/device_copy.h"
#endif

namespace sida::testing {

/// A matrix in a device's memory, and its weights.
struct TestMatrix {
  PanelMatrix panels;
  std::vector<float> rows;  ///< (n, k), rounded as packed
};

/// x (k) · row `row` in float64.
inline double product(const TestMatrix& w, size_t row, const double* x) {
  double sum = 0;
  for (size_t i = 0; i < w.panels.k; ++i) sum += x[i] * static_cast<double>(w.rows[row * w.panels.k + i]);
  return sum;
}

inline std::vector<double> doubles(const float* x, size_t count) { return {x, x + count}; }

/// Ops of one device, with a cache and memory for their inputs and outputs.
class OpsFixture {
 public:
  OpsFixture(DeviceKind kind, const ModelSpec& spec, BatchLimits limits,
         const std::vector<std::vector<float>>& position_biases = {})
      : spec_(spec), limits_(limits), kind_(kind), backend_(make_backend(kind)), memory_(*backend_, uint64_t{1} << 30) {
    limits_.device = kind;
    weights_.stacks.resize(spec.stacks.size());
    for (size_t i = 0; i < position_biases.size(); ++i) {
      if (!position_biases[i].empty()) weights_.stacks[i].position_bias = upload(position_biases[i]);
    }
    cache_ = std::make_unique<KvCache>(memory_, KvShape::of(spec_, limits_.kv), KvRoom(limits_));
    const uint64_t before = memory_.used();
    ops_ = make_ops(spec_, weights_, memory_, *cache_, limits_);
    taken_ = memory_.used() - before;
  }

  Ops& ops() { return *ops_; }
  KvCache& cache() { return *cache_; }
  const Activations& at() const { return ops_->activations(); }
  const Backend& backend() const { return *backend_; }
  /// Bytes that the ops took from the device's memory.
  uint64_t taken() const { return taken_; }
  uint64_t planned() const { return workspace_bytes(spec_, limits_); }

  void write(void* device, const void* host, size_t bytes) {
    const auto writer = backend_->writer();
    auto* target = static_cast<std::byte*>(device);
    writer->begin(bytes);
    std::byte* buffer = writer->buffer_for(target, bytes);
    std::memcpy(buffer, host, bytes);
    writer->send(target, buffer, bytes);
    writer->finish();
  }
  void write(float* device, const std::vector<float>& host) { write(device, host.data(), host.size() * sizeof(float)); }

  /// Waits for what the ops have begun.
  std::vector<float> read(const float* device, size_t count) {
    ops_->finish();
    std::vector<float> host(count);
    if (kind_ == DeviceKind::kCpu) std::memcpy(host.data(), device, count * sizeof(float));
#ifdef SIDA_WITH_CUDA
    if (kind_ == DeviceKind::kCuda) {
      require_success(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
    }
#endif
    return host;
  }

  float* upload(const std::vector<float>& host) {
    buffers_.emplace_back(memory_, host.size() * sizeof(float));
    write(buffers_.back().floats(), host);
    return buffers_.back().floats();
  }
  std::byte* upload(const std::vector<std::byte>& host) {
    buffers_.emplace_back(memory_, host.size());
    write(buffers_.back().data(), host.data(), host.size());
    return buffers_.back().data();
  }

  /// Random weights, of about 1 / sqrt(k).
  TestMatrix matrix(size_t n, size_t k, WeightFormat format, unsigned seed) {
    std::vector<std::byte> panels(panel_matrix_bytes(n, k, format));
    TestMatrix result = packed(n, k, format, seed, panels.data());
    result.panels.data = upload(panels);
    return result;
  }

  /// The same at `out`, in the host's memory.
  static TestMatrix packed(size_t n, size_t k, WeightFormat format, unsigned seed, std::byte* out) {
    std::vector<float> weights = random_floats(n * k, seed);
    for (float& weight : weights) weight /= std::sqrt(static_cast<float>(k));
    pack_panels(weights.data(), n, k, format, out);
    const PanelMatrix matrix{out, format, k, n};
    for (size_t row = 0; row < n; ++row) read_panel_row(matrix, row, &weights[row * k]);
    return {matrix, weights};
  }

 private:
  ModelSpec spec_;
  BatchLimits limits_;
  DeviceKind kind_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory memory_;
  std::vector<DeviceBuffer> buffers_;
  ModelWeights weights_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<Ops> ops_;
  uint64_t taken_ = 0;
};

/// A causal stack of dense layers with these heads.
inline ModelSpec decoder_spec(size_t width, size_t heads, size_t kv_heads, size_t head_dim) {
  ModelSpec spec;
  spec.family = "test";
  spec.vocab = 100;
  spec.width = width;
  LayerSpec layer{{heads, kv_heads, head_dim, 0.25f, QkNorm::kNone, {}}, {}, FfnSpec{2 * width, Activation::kRelu}};
  spec.stacks.push_back({"decoder", true, Rope{{1.0f}, 1.0f}, {layer, layer}});
  return spec;
}

/// Checks |found - expected| <= tolerance · (1 + |expected|) of all.
inline void check_near(const std::vector<float>& found, const std::vector<double>& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO(i << ": " << found[i] << ", expected " << expected[i]);
    REQUIRE(std::abs(static_cast<double>(found[i]) - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

/// What products may be off by where f32 sums are by `tolerance`: tensor cores meet packed weights with x cut after 17
/// bits.
inline double product_tolerance(DeviceKind kind, WeightFormat format, double tolerance) {
  return kind == DeviceKind::kCuda && format != kF32Format ? 8 * tolerance : tolerance;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace sida::testing
