#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "device/device_memory.h"
#include "expert/expert_store.h"
#include "ops/cpu/expert_ffn.h"
#include "ops/dispatch.h"
#include "ops/ops.h"
#include "spec/batch_limits.h"

namespace sida {

struct HostExpertsOptions {
  bool on = true;
  /// For tests: of a layer's `missing` experts, how many the CPU computes. Null: by measured speeds.
  std::function<size_t(size_t missing)> share = {};
};

/// Experts that a layer on a GPU needs and only the host tier has: the CPU computes some of them where they lie, while
/// the others are copied, so that both end together. With activations in 8 bits an expert's outputs have the same bits
/// on both, so answers do not depend on the split.
class HostExperts {
 public:
  /// Bytes of host memory; 0 where no expert of the layout can be shared within `limits`.
  static uint64_t bytes(const ExpertLayout& layout, const BatchLimits& limits);

  /// Shares nothing where `bytes` is less than bytes(). `store` outlives it.
  HostExperts(ExpertStore& store, const BatchLimits& limits, std::unique_ptr<Backend> host, uint64_t bytes,
              HostExpertsOptions options);
  HostExperts(const HostExperts&) = delete;
  HostExperts& operator=(const HostExperts&) = delete;

  bool on() const { return memory_.data() != nullptr; }
  /// Whether the CPU may be asked for experts of the layer in a pass of `tokens`. Then rows() receives normed.
  bool may_ask(size_t layer, size_t tokens) const;
  /// (tokens, width), in page-locked memory.
  float* rows() { return rows_; }

  /// Chooses what the CPU computes. Returns (experts of the layer) Found::kCpu for those, else 0; empty for none.
  std::span<const uint8_t> ask(size_t layer, const Dispatch& dispatch);
  /// Computes them from rows(), and queues the transport of their outputs.
  void compute(size_t layer, const Dispatch& dispatch, Ops& ops);

 private:
  /// An expert that the host tier holds for this layer.
  struct Missing {
    HostedExpert expert;
    size_t rows;
  };

  size_t share_of(size_t layer);
  double work_of(size_t layer, size_t rows) const;
  void release();

  ExpertStore& store_;
  HostExpertsOptions options_;
  std::unique_ptr<Backend> backend_;
  DeviceMemory budget_;
  DeviceBuffer memory_;
  ThreadPool pool_;
  size_t most_tokens_ = 0;
  float* rows_ = nullptr;     ///< (most_tokens_, width)
  float* outputs_ = nullptr;  ///< (kMostRows, width)
  ExpertScratch scratch_{};
  double seconds_per_work_;             ///< of the CPU
  std::vector<uint8_t> last_computed_;  ///< (experts): 1 where the CPU computed the expert when it was missing last

  // Of the running layer. Kept, so that a pass allocates nothing once they have grown.
  std::vector<Missing> missing_;  ///< the CPU's first
  size_t asked_count_ = 0;
  std::vector<HostedExpert> held_;
  std::vector<uint8_t> asked_;  ///< (experts of the layer)
  std::vector<ExpertRows> group_;
};

}  // namespace sida
