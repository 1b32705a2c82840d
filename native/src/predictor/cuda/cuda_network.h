#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "device/cuda/cuda_handles.h"
#include "predictor/device_network.h"
#include "predictor/predictor_weights.h"

namespace sida {

/// DeviceNetwork on a GPU, in a stream of its own. Its memory is allocated once.
class CudaNetwork final : public DeviceNetwork {
 public:
  /// Throws invalid_request for a network without LSTMs and for one that takes more than kDeviceNetworkBytes, and
  /// device_unavailable, out_of_memory (page-locked memory of the host) and device_failed.
  explicit CudaNetwork(const PredictorWeights& weights);
  ~CudaNetwork() override;

  void forward(std::span<const uint32_t> lengths, const float* compressed, const Take& take) override;

 private:
  /// A matrix (n, k) and the bias (n).
  struct Product {
    const uint32_t* weights = nullptr;
    const float* bias = nullptr;
    size_t k = 0, n = 0;
  };
  struct Arena;

  void lay_out(Arena& arena, const PredictorWeights& weights);
  void multiply(const Product& product, const float* x, size_t rows, const float* added, float* y);
  /// Rows whose logits fit into the buffer.
  size_t logit_rows() const;

  PredictorConfig config_;
  CudaStream stream_;
  CudaEvent done_;
  CudaDeviceMemory memory_;
  Product inputs_[kMaxLstmLayers][2];
  const uint32_t* hidden_[kMaxLstmLayers][2] = {};
  Product residual_;
  Product heads_;
  uint32_t* begins_ = nullptr;  ///< (kMostRows + 1)
  float* gates_[2] = {};        ///< (kMostRows, 4 · units)
  float* rows_[2] = {};         ///< (kMostRows, h)
  float* logits_ = nullptr;     ///< (logit_rows(), layers · experts)

  std::mutex mutex_;
  CudaHostArray<uint32_t> sent_begins_;
  CudaHostArray<float> sent_;
  CudaHostArray<float> returned_;
};

}  // namespace sida
