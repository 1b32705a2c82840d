#pragma once

#include <numbers>

#include "kv/kv_cache.h"
#include "ops/ops.h"
#include "support/devices.h"
#include "support/float64.h"
#include "support/weight_formats.h"
#include "weights/model_weights.h"
#ifdef SIDA_WITH_CUDA
#include "support/device_copy.h"
#endif

namespace sida::testing {

/// A matrix in a device's memory, and its weights.
struct TestMatrix {
  PanelMatrix panels;
  std::vector<float> rows;  ///< (n, k), rounded as packed

  Doubles times(const Doubles& x) const {
    Doubles y(panels.n);
    for (size_t i = 0; i < rows.size(); ++i) y[i / panels.k] += static_cast<double>(rows[i]) * x[i % panels.k];
    return y;
  }
};

/// Copies from the host's memory to a device's.
inline void write_to(Backend& backend, void* device, const void* host, size_t bytes) {
  const auto writer = backend.writer();
  auto* target = static_cast<std::byte*>(device);
  writer->begin(bytes);
  std::byte* buffer = writer->buffer_for(target, bytes);
  std::memcpy(buffer, host, bytes);
  writer->send(target, buffer, bytes);
  writer->finish();
}

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

  void write(void* device, const void* host, size_t bytes) { write_to(*backend_, device, host, bytes); }
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

  /// Random weights, of about 1 / sqrt(k) where a type is packed from floats.
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
    if (only_copied(format.type)) {
      std::ranges::copy(random_panels(format, n, k, seed), out);
    } else {
      pack_panels(weights.data(), n, k, format, out);
    }
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

inline constexpr size_t kWidth = 72, kHidden = 100, kExperts = 9;
inline constexpr Activation kActivations[] = {Activation::kRelu, Activation::kGelu, Activation::kSwiglu,
                                              Activation::kClampedSwiglu, Activation::kGeglu};

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

/// The same with experts in its second layer.
inline ModelSpec moe_spec(Activation activation, const RouterSpec& router, size_t experts = kExperts) {
  ModelSpec spec = decoder_spec(kWidth, 3, 3, 24);
  spec.stacks[0].layers[0].feed_forward = FfnSpec{kHidden, activation};
  spec.stacks[0].layers[1].feed_forward = MoeSpec{experts, {kHidden, activation}, router};
  return spec;
}

inline BatchLimits limits_of(size_t tokens, size_t threads = 2) {
  BatchLimits limits;
  limits.max_batch_tokens = tokens;
  limits.kv_tokens = (tokens + 15) / 16 * 16;
  limits.threads = threads;
  return limits;
}

/// A pass of one sequence.
struct Pass {
  KvPages pages;
  SequenceSpan span;

  Pass(OpsFixture& fixture, size_t tokens) : span{0, tokens, 0, &pages} {
    fixture.cache().grow(pages, 0, tokens);
    fixture.ops().start(0, {&span, 1}, tokens);
  }
};

/// A feed-forward network, and what it gives in float64.
struct Network {
  TestMatrix gate, up, down;
  Activation activation = Activation::kRelu;
  std::vector<float> gate_bias = {}, up_bias = {}, down_bias = {};  ///< or none

  /// Of a random one on a device.
  static Network random(OpsFixture& fixture, Activation activation, WeightFormat format) {
    Network net{.activation = activation};
    if (gated(activation)) net.gate = fixture.matrix(kHidden, kWidth, format, 1);
    net.up = fixture.matrix(kHidden, kWidth, format, 2);
    net.down = fixture.matrix(kWidth, kHidden, format, 3);
    return net;
  }

  Doubles run(const Doubles& x) const {
    const auto biased = [](Doubles y, const std::vector<float>& bias) {
      for (size_t i = 0; i < bias.size(); ++i) y[i] += static_cast<double>(bias[i]);
      return y;
    };
    Doubles hidden = biased(up.times(x), up_bias);
    const Doubles gates = gate.rows.empty() ? hidden : biased(gate.times(x), gate_bias);
    for (size_t i = 0; i < hidden.size(); ++i) {
      const double gate = gates[i], limited = std::min(gate, 7.0);
      const double tanh = std::tanh(std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate));
      hidden[i] = activation == Activation::kRelu     ? std::max(hidden[i], 0.0)
                  : activation == Activation::kGelu   ? hidden[i] * (1 + std::erf(hidden[i] * M_SQRT1_2)) / 2
                  : activation == Activation::kSwiglu ? gate / (1 + std::exp(-gate)) * hidden[i]
                  : activation == Activation::kGeglu
                      ? gate / 2 * (1 + tanh) * hidden[i]
                      : (std::clamp(hidden[i], -7.0, 7.0) + 1) * limited / (1 + std::exp(-1.702 * limited));
    }
    return biased(down.times(hidden), down_bias);
  }
};

/// What products may be off by where f32 sums are by `tolerance`: tensor cores meet packed weights with x cut after 17
/// bits.
inline double product_tolerance(DeviceKind kind, WeightFormat format, double tolerance) {
  return kind == DeviceKind::kCuda && format != kF32Format ? 8 * tolerance : tolerance;
}

}  // namespace sida::testing
