#include "device/cuda/kernel_language.h"
#include "device/cuda/mma_peak.h"

namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 8 * kWarp;
constexpr unsigned kBlocksEach = 2;
/// Independent sums, so that no instruction waits for the one before.
constexpr int kChains = 8;

__global__ void __launch_bounds__(kThreads) multiply(size_t steps, float* out) {
  // Any finite numbers except 0: zeros take less power, so the clock would run higher than in a real product.
  const uint32_t pattern = 0x3f8e3fb7U + threadIdx.x * 0x00130007U;
  const uint32_t a[4] = {pattern, pattern ^ 0x80000000U, pattern ^ 0x00010000U, pattern ^ 0x00008001U};
  const uint32_t b[2] = {pattern ^ 0x80008000U, pattern ^ 0x00100003U};
  float c[kChains][4] = {};
  for (size_t step = 0; step < steps; ++step) {
#pragma unroll
    for (int i = 0; i < kChains; ++i) mma_bf16(c[i], a, b);
  }
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kChains; ++i) sum += c[i][0] + c[i][1] + c[i][2] + c[i][3];
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

}  // namespace

size_t mma_peak_outputs(unsigned multiprocessors) { return size_t{multiprocessors} * kBlocksEach * kThreads; }

double mma_peak(unsigned multiprocessors, size_t steps, float* out, cudaStream_t stream) {
  const unsigned blocks = multiprocessors * kBlocksEach;
  launch(multiply, {blocks, kThreads}, stream, steps, out);
  return 2.0 * 16 * 8 * 16 * kChains * static_cast<double>(steps) * blocks * (kThreads / kWarp);
}

}  // namespace sida::cuda
