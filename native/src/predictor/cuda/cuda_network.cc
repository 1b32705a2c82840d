#include "predictor/cuda/cuda_network.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "core/error.h"
#include "device/allocation_bytes.h"
#include "device/cuda/cuda_backend.h"
#include "predictor/cuda/network_kernels.h"

namespace sida {
namespace {

constexpr size_t kLogitFloats = size_t{1} << 20;

/// Rounds to the nearest bf16, ties to even. Weights are finite.
uint32_t bf16_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace

/// Counts what is laid out and, where there is memory, fills it.
struct CudaNetwork::Arena {
  std::byte* memory = nullptr;
  cudaStream_t stream = nullptr;
  size_t bytes = 0;

  template <class T>
  T* take(size_t count) {
    T* const place = memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + bytes);
    bytes += (count * sizeof(T) + 255) / 256 * 256;
    return place;
  }

  template <class T>
  const T* fill(const std::vector<T>& values) {
    T* const place = take<T>(values.size());
    if (place != nullptr) {
      cuda_check(cudaMemcpyAsync(place, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync");
      cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    }
    return place;
  }

  const uint32_t* matrix(const float* weights, size_t n, size_t k) {
    const size_t pairs = (k + 1) / 2;
    if (memory == nullptr) return take<uint32_t>(pairs * n);
    std::vector<uint32_t> words(pairs * n);
    for (size_t row = 0; row < n; ++row) {
      for (size_t i = 0; i < k; ++i) words[i / 2 * n + row] |= bf16_bits(weights[row * k + i]) << 16 * (i % 2);
    }
    return fill(words);
  }

  Product product(const float* weights, const float* bias, size_t n, size_t k) {
    return {matrix(weights, n, k), fill(std::vector<float>(bias, bias + n)), k, n};
  }
};

void CudaNetwork::lay_out(Arena& arena, const PredictorWeights& weights) {
  using P = PredictorPart;
  const size_t h = config_.hidden, units = config_.units();
  for (size_t layer = 0; layer < config_.lstm_layers; ++layer) {
    for (size_t d = 0; d < config_.directions(); ++d) {
      const LstmParts parts = lstm_parts(layer, d);
      inputs_[layer][d] = arena.product(weights.at(parts.input), weights.at(parts.bias), 4 * units, h);
      hidden_[layer][d] = arena.matrix(weights.at(parts.hidden), 4 * units, units);
    }
  }
  residual_ = arena.product(weights.at(P::kResidualWeight), weights.at(P::kResidualBias), h, h);
  heads_ = arena.product(weights.at(P::kHeadWeight), weights.at(P::kHeadBias), config_.layers * config_.experts, h);
  begins_ = arena.take<uint32_t>(kMostRows + 1);
  for (size_t d = 0; d < config_.directions(); ++d) gates_[d] = arena.take<float>(kMostRows * 4 * units);
  for (float*& rows : rows_) rows = arena.take<float>(kMostRows * h);
  logits_ = arena.take<float>(logit_rows() * heads_.n);
}

CudaNetwork::CudaNetwork(const PredictorWeights& weights) : config_(weights.layout.config()) {
  if (config_.kind() != NetworkKind::kLstm) {
    throw Error("invalid_request",
                "a network without LSTMs does not run on the GPU: choose the predictor's device cpu");
  }
  Arena counted;
  lay_out(counted, weights);
  // A page is left for the stream.
  constexpr uint64_t kMost = kDeviceNetworkBytes - kGpuPage;
  if (counted.bytes > kMost) {
    throw Error("invalid_request",
                "the predictor's network takes " + std::to_string(counted.bytes) + " bytes of the GPU, more than the " +
                    std::to_string(kMost) + " that are set aside: choose the predictor's device cpu",
                {{"most", static_cast<double>(kMost)}, {"found", static_cast<double>(counted.bytes)}});
  }
  find_cuda_device();
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
  stream_ = make_cuda_stream();
  done_ = make_cuda_event();
  memory_ = make_cuda_device_memory(counted.bytes);
  Arena arena{memory_.get(), stream_.get()};
  lay_out(arena, weights);
  sent_begins_ = make_cuda_host_array<uint32_t>(kMostRows + 1);
  sent_ = make_cuda_host_array<float>(kMostRows * config_.hidden);
  returned_ = make_cuda_host_array<float>(logit_rows() * heads_.n);
}

CudaNetwork::~CudaNetwork() {
  if (stream_) cudaStreamSynchronize(stream_.get());
}

size_t CudaNetwork::logit_rows() const { return std::clamp<size_t>(kLogitFloats / heads_.n, 1, kMostRows); }

void CudaNetwork::multiply(const Product& product, const float* x, size_t rows, const float* added, float* y) {
  cuda::multiply_rows({x, product.weights, product.bias, added, y, rows, product.k, product.n}, stream_.get());
}

void CudaNetwork::forward(std::span<const uint32_t> lengths, const float* compressed, const Take& take) {
  const std::lock_guard lock(mutex_);
  const size_t h = config_.hidden, directions = config_.directions();
  size_t rows = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    sent_begins_[s] = static_cast<uint32_t>(rows);
    rows += lengths[s];
  }
  if (rows == 0) return;
  sent_begins_[lengths.size()] = static_cast<uint32_t>(rows);
  std::copy_n(compressed, rows * h, sent_.get());
  const auto send = [&](void* to, const void* from, size_t bytes) {
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
  };
  send(begins_, sent_begins_.get(), (lengths.size() + 1) * sizeof(uint32_t));
  send(rows_[0], sent_.get(), rows * h * sizeof(float));
  for (size_t layer = 0; layer < config_.lstm_layers; ++layer) {
    cuda::RunLstms lstms{
        {gates_[0], gates_[1]}, {hidden_[layer][0], hidden_[layer][1]}, begins_, rows_[0], lengths.size(), directions,
        config_.units()};
    for (size_t d = 0; d < directions; ++d) multiply(inputs_[layer][d], rows_[0], rows, nullptr, gates_[d]);
    cuda::run_lstms(lstms, stream_.get());
  }
  const uint32_t longest = *std::max_element(lengths.begin(), lengths.end());
  cuda::attend_rows({rows_[0], begins_, rows_[1], rows, h, longest, config_.causal,
                     config_.attention_weights == WeightFunction::kSoftmax},
                    stream_.get());
  multiply(residual_, rows_[1], rows, rows_[1], rows_[0]);
  for (size_t first = 0; first < rows; first += logit_rows()) {
    const size_t count = std::min(logit_rows(), rows - first);
    multiply(heads_, rows_[0] + first * h, count, nullptr, logits_);
    cuda_check_launches("the predictor's network");
    cuda_check(cudaMemcpyAsync(returned_.get(), logits_, count * heads_.n * sizeof(float), cudaMemcpyDeviceToHost,
                               stream_.get()),
               "cudaMemcpyAsync");
    cuda_check(cudaEventRecord(done_.get(), stream_.get()), "cudaEventRecord");
    cuda_check(cudaEventSynchronize(done_.get()), "cudaEventSynchronize");
    take(first, count, returned_.get());
  }
}

}  // namespace sida
