#ifdef SIDA_CUDA_EMULATED

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/emulation_fixtures.h"

namespace sida::cuda {
namespace {

using testing::DeviceCopy;
using testing::FreshDevice;

__global__ void shuffle_lanes(int* out) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  int* row = out + threadIdx.x * 6;
  row[0] = __shfl_sync(kAllLanes, lane, 5);
  row[1] = __shfl_xor_sync(kAllLanes, lane, 16);
  row[2] = __shfl_down_sync(kAllLanes, lane, 3);
  row[3] = __shfl_sync(kAllLanes, lane, 1, 8);
  row[4] = static_cast<int>(__ballot_sync(kAllLanes, lane % 3 == 0));
  row[5] = __reduce_add_sync(kAllLanes, lane);
}

TEST_CASE("cuda emulation: shuffles and votes of every warp") {
  const FreshDevice device;
  constexpr int kThreads = 96;
  DeviceCopy<int> out(std::vector<int>(kThreads * 6));
  launch(shuffle_lanes, {1, kThreads}, nullptr, out.data());
  const auto rows = out.read();
  int votes = 0;
  for (int lane = 0; lane < 32; lane += 3) votes |= 1 << lane;
  for (int thread = 0; thread < kThreads; ++thread) {
    const int lane = thread % 32;
    const int* row = &rows[static_cast<size_t>(thread) * 6];
    CHECK(row[0] == 5);
    CHECK(row[1] == (lane ^ 16));
    CHECK(row[2] == (lane + 3 < 32 ? lane + 3 : lane));
    CHECK(row[3] == lane / 8 * 8 + 1);
    CHECK(row[4] == votes);
    CHECK(row[5] == 31 * 16);
  }
}

/// Reverses each block's part of `values` through shared memory.
__global__ void reverse(const float* values, float* out) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  const unsigned first = (blockIdx.x + gridDim.x * blockIdx.y) * blockDim.x;
  shared[threadIdx.x] = values[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

__global__ void reverse_without_barrier(const float* values, float* out) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  shared[threadIdx.x] = values[threadIdx.x];
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST_CASE("cuda emulation: barriers order shared memory in every block of a grid") {
  const FreshDevice device;
  constexpr size_t kThreads = 64;
  std::vector<float> values(kThreads * 15);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  DeviceCopy<float> in(values);
  DeviceCopy<float> out(std::vector<float>(values.size()));
  launch(reverse, {{5, 3}, kThreads, kThreads * sizeof(float)}, nullptr, in.data(), out.data());
  for (size_t first = 0; first < values.size(); first += kThreads) {
    std::reverse(values.begin() + static_cast<ptrdiff_t>(first),
                 values.begin() + static_cast<ptrdiff_t>(first + kThreads));
  }
  CHECK(out.read() == values);
}

#ifndef __SANITIZE_THREAD__  // which reports the race, as it should
TEST_CASE("cuda emulation: a missing barrier gives wrong results") {
  const FreshDevice device;
  DeviceCopy<float> in(std::vector<float>(64, 1.0F));
  DeviceCopy<float> out(std::vector<float>(64));
  launch(reverse_without_barrier, {1, 64, 64 * sizeof(float)}, nullptr, in.data(), out.data());
  const auto reversed = out.read();
  CHECK(std::any_of(reversed.begin(), reversed.end(), [](float value) { return std::isnan(value); }));
}
#endif

__global__ void sum_warps(float* sum, unsigned* most) {
  __shared__ float partial[4];
  float own = static_cast<float>(threadIdx.x);
  for (int step = 16; step > 0; step /= 2) own += __shfl_xor_sync(kAllLanes, own, step);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = own;
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(sum, partial[0] + partial[1] + partial[2] + partial[3]);
    atomicMax(most, blockIdx.x);
  }
}

TEST_CASE("cuda emulation: atomics of all blocks add up") {
  const FreshDevice device;
  DeviceCopy<float> sum(std::vector<float>{0});
  DeviceCopy<unsigned> most(std::vector<unsigned>{0});
  launch(sum_warps, {40, 128}, nullptr, sum.data(), most.data());
  CHECK(sum.read()[0] == 40 * 127 * 64);
  CHECK(most.read()[0] == 39);
}

uint32_t pair_at(const __nv_bfloat16* first, size_t stride) {
  return __bfloat16_as_ushort(first[0]) | static_cast<uint32_t>(__bfloat16_as_ushort(first[stride])) << 16;
}

/// c (16, n) = a (16, k) · b (k, n), one warp for all.
__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, unsigned n, unsigned k) {
  const unsigned group = threadIdx.x / 4;
  const unsigned place = threadIdx.x % 4 * 2;
  for (unsigned column = 0; column < n; column += 8) {
    float sums[4] = {};
    for (unsigned step = 0; step < k; step += 16) {
      const uint32_t left[4] = {
          pair_at(a + group * k + step + place, 1), pair_at(a + (group + 8) * k + step + place, 1),
          pair_at(a + group * k + step + place + 8, 1), pair_at(a + (group + 8) * k + step + place + 8, 1)};
      const uint32_t right[2] = {pair_at(b + (step + place) * n + column + group, n),
                                 pair_at(b + (step + place + 8) * n + column + group, n)};
      mma_bf16(sums, left, right);
    }
    c[group * n + column + place] = sums[0];
    c[group * n + column + place + 1] = sums[1];
    c[(group + 8) * n + column + place] = sums[2];
    c[(group + 8) * n + column + place + 1] = sums[3];
  }
}

TEST_CASE("cuda emulation: mma gives the plain product") {
  const FreshDevice device;
  constexpr unsigned kM = 16;
  constexpr unsigned kN = 32;
  constexpr unsigned kK = 768;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<__nv_bfloat16> a(kM * kK);
  std::vector<__nv_bfloat16> b(kK * kN);
  for (auto& value : a) value = uniform(random);
  for (auto& value : b) value = uniform(random);
  DeviceCopy<__nv_bfloat16> device_a(a);
  DeviceCopy<__nv_bfloat16> device_b(b);
  DeviceCopy<float> c(std::vector<float>(kM * kN));
  launch(multiply, {1, kWarp}, nullptr, device_a.data(), device_b.data(), c.data(), kN, kK);
  const auto product = c.read();
  for (unsigned row = 0; row < kM; ++row) {
    for (unsigned column = 0; column < kN; ++column) {
      float sum = 0;
      for (unsigned k = 0; k < kK; ++k) sum += float{a[row * kK + k]} * float{b[k * kN + column]};
      CHECK(product[row * kN + column] == sum);
    }
  }
}

enum class Wait { kNone, kFirstGroup, kAll };

/// Copies 32 floats by 8 threads through shared memory, in two groups of 16.
__global__ void copy_through_shared(const float* from, float* to, Wait wait) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  const unsigned first = threadIdx.x * 4;
  copy_async_16(shared + first, from + first);
  copy_async_commit();
  copy_async_16(shared + 32 + first, from + 32 + first);
  copy_async_commit();
  if (wait == Wait::kFirstGroup) copy_async_wait<1>();
  if (wait == Wait::kAll) copy_async_wait<0>();
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) to[i] = shared[i];
}

TEST_CASE("cuda emulation: asynchronous copies arrive when waited for, and not before") {
  const FreshDevice device;
  std::vector<float> values(64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  DeviceCopy<float> from(values);
  DeviceCopy<float> to(std::vector<float>(values.size()));
  const LaunchShape shape{1, 8, 64 * sizeof(float)};
  launch(copy_through_shared, shape, nullptr, from.data(), to.data(), Wait::kAll);
  CHECK(to.read() == values);
  launch(copy_through_shared, shape, nullptr, from.data(), to.data(), Wait::kFirstGroup);
  const auto half = to.read();
  CHECK(std::equal(half.begin(), half.begin() + 32, values.begin()));
  CHECK(std::all_of(half.begin() + 32, half.end(), [](float value) { return std::isnan(value); }));
  launch(copy_through_shared, shape, nullptr, from.data(), to.data(), Wait::kNone);
  const auto none = to.read();
  CHECK(std::all_of(none.begin(), none.end(), [](float value) { return std::isnan(value); }));

  launch(copy_through_shared, shape, nullptr, from.data() + 1, to.data(), Wait::kAll);
  CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress);
}

__global__ void barrier_for_some(unsigned threads) {
  if (threadIdx.x < threads) __syncthreads();
}

__global__ void shuffle_for_some(unsigned lanes, unsigned mask, int source) {
  if (threadIdx.x < lanes) static_cast<void>(__shfl_sync(mask, 1, source));
}

/// That `message` is in the failure with which the kernel just launched ended the device.
void check_failure(const std::string& message) {
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(emulation::last_failure().find(message) != std::string::npos);
  emulation::reset();
}

TEST_CASE("cuda emulation: barriers and warp functions that some threads do not reach end the kernel") {
  const FreshDevice device;
  launch(barrier_for_some, {1, 64}, nullptr, 64U);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  launch(barrier_for_some, {3, 64}, nullptr, 40U);
  check_failure("24 threads ended, 40 wait at __syncthreads");
  launch(shuffle_for_some, {1, 32}, nullptr, 31U, kAllLanes, 0);
  check_failure("at __shfl_sync for the lanes 0xffffffff");
  launch(shuffle_for_some, {1, 24}, nullptr, 32U, kAllLanes, 0);
  check_failure("at __shfl_sync for the lanes 0xffffffff");
  launch(shuffle_for_some, {1, 32}, nullptr, 32U, 0xffffU, 0);
  check_failure("without its own lane");
  launch(shuffle_for_some, {1, 32}, nullptr, 16U, 0xffffU, 16);
  check_failure("a shuffle reads a lane that is not in its mask");
  launch(shuffle_for_some, {1, 32}, nullptr, 16U, 0xffffU, 15);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

}  // namespace
}  // namespace sida::cuda

#endif
