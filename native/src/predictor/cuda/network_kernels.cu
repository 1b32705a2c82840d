#include "device/cuda/kernel_language.h"
#include "ops/cuda/warp.h"
#include "predictor/cuda/network_kernels.h"

namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 128;
/// Rows for which a block reads the weights once.
constexpr unsigned kRows = 8;
constexpr unsigned kMostThreads = 1024;

__device__ float low_half(uint32_t word) { return __uint_as_float(word << 16); }
__device__ float high_half(uint32_t word) { return __uint_as_float(word & 0xffff0000U); }

/// Unlike fmaxf(), keeps NaN.
__device__ float relu(float x) { return x < 0 ? 0.0f : x; }
__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__global__ void multiply_tile(MultiplyRows task) {
  const size_t pairs = (task.k + 1) / 2, first = blockIdx.y * size_t{kRows};
  auto* x = reinterpret_cast<float*>(dynamic_shared());  // (kRows, 2 · pairs)
  for (size_t i = threadIdx.x; i < kRows * 2 * pairs; i += kThreads) {
    const size_t row = first + i / (2 * pairs), column = i % (2 * pairs);
    x[i] = row < task.rows && column < task.k ? task.x[row * task.k + column] : 0.0f;
  }
  __syncthreads();
  const size_t column = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (column >= task.n) return;
  float sums[kRows] = {};
#pragma unroll 4
  for (size_t p = 0; p < pairs; ++p) {
    const uint32_t word = task.weights[p * task.n + column];
    for (unsigned r = 0; r < kRows; ++r) {
      sums[r] = fmaf(low_half(word), x[r * 2 * pairs + 2 * p], sums[r]);
      sums[r] = fmaf(high_half(word), x[r * 2 * pairs + 2 * p + 1], sums[r]);
    }
  }
  for (size_t r = 0; r < kRows && first + r < task.rows; ++r) {
    const size_t at = (first + r) * task.n + column;
    const float sum = sums[r] + task.bias[column];
    task.y[at] = task.added == nullptr ? sum : task.added[at] + relu(sum);
  }
}

/// One block runs one sequence in one direction, because a step needs all units of the step before.
__global__ void __launch_bounds__(kMostThreads) run_lstm(RunLstms task) {
  const unsigned direction = blockIdx.y;
  const size_t units = task.units, gates = 4 * units, pairs = (units + 1) / 2;
  const float* inputs = direction == 0 ? task.inputs[0] : task.inputs[1];
  const uint32_t* weights = direction == 0 ? task.weights[0] : task.weights[1];
  auto* y = reinterpret_cast<float*>(dynamic_shared());  // (2 · pairs)
  float* cells = y + 2 * pairs;                          // (units)
  float* sums = cells + units;                           // (gates)
  for (size_t i = threadIdx.x; i < 2 * pairs + units; i += blockDim.x) y[i] = 0;
  __syncthreads();
  const size_t begin = task.begins[blockIdx.x], rows = task.begins[blockIdx.x + 1] - begin;
  for (size_t step = 0; step < rows; ++step) {
    const size_t row = direction == 0 ? begin + step : begin + rows - 1 - step;
    for (size_t i = threadIdx.x; i < gates; i += blockDim.x) {
      float sum = inputs[row * gates + i];
#pragma unroll 8
      for (size_t p = 0; p < pairs; ++p) {
        const uint32_t word = weights[p * gates + i];
        sum = fmaf(low_half(word), y[2 * p], sum);
        sum = fmaf(high_half(word), y[2 * p + 1], sum);
      }
      sums[i] = sum;
    }
    __syncthreads();
    for (size_t i = threadIdx.x; i < units; i += blockDim.x) {
      const float kept = sigmoid(sums[units + i]) * cells[i];
      cells[i] = fmaf(sigmoid(sums[i]), tanhf(sums[2 * units + i]), kept);
      y[i] = sigmoid(sums[3 * units + i]) * tanhf(cells[i]);
      task.y[(row * task.directions + direction) * units + i] = y[i];
    }
    __syncthreads();
  }
}

/// Turns scores into weights whose sum is 1, and whose form is a softmax. One warp.
__device__ void softmax_weights(float* scores, size_t keys, float top, size_t lane) {
  float sum = 0;
  for (size_t i = lane; i < keys; i += kWarp) sum += scores[i] = expf(scores[i] - top);
  sum = warp_sum(sum);
  for (size_t i = lane; i < keys; i += kWarp) scores[i] /= sum;
}

/// The same by Michelot's projection, as in sparsemax.cc.
__device__ void sparsemax_weights(float* scores, size_t keys, float top, size_t lane) {
  float threshold = -INFINITY;
  auto support = static_cast<float>(keys + 1);
  for (;;) {
    float sum = 0, count = 0;
    for (size_t i = lane; i < keys; i += kWarp) {
      const float below = scores[i] - top;
      if (below > threshold) {
        sum += below;
        count += 1;
      }
    }
    sum = warp_sum(sum);
    count = warp_sum(count);
    // Without a NaN the largest score stays.
    if (count >= support || count == 0) break;
    support = count;
    threshold = (sum - 1) / count;
  }
  for (size_t i = lane; i < keys; i += kWarp) scores[i] = relu(scores[i] - top - threshold);
}

/// One warp for each row.
__global__ void attend_row(AttendRows task) {
  const size_t row = blockIdx.x * size_t{kThreads / kWarp} + threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  if (row >= task.rows) return;
  auto* weights = reinterpret_cast<float*>(dynamic_shared()) + threadIdx.x / kWarp * task.longest;
  const uint32_t* sequence = task.begins;
  while (sequence[1] <= row) ++sequence;
  const size_t begin = sequence[0], keys = (task.causal ? row + 1 : sequence[1]) - begin, width = task.width;
  const float* y = task.y + begin * width;
  const float* query = task.y + row * width;
  const float scale = 1.0f / sqrtf(static_cast<float>(width));
  float top = -INFINITY;
  for (size_t key = 0; key < keys; ++key) {
    float product = 0;
    for (size_t i = lane; i < width; i += kWarp) product = fmaf(query[i], y[key * width + i], product);
    const float score = warp_sum(product) * scale;
    if (lane == 0) weights[key] = score;
    top = fmaxf(top, score);
  }
  __syncwarp();
  task.softmax ? softmax_weights(weights, keys, top, lane) : sparsemax_weights(weights, keys, top, lane);
  __syncwarp();
  for (size_t i = lane; i < width; i += kWarp) {
    float sum = query[i];
    for (size_t key = 0; key < keys; ++key) {
      if (weights[key] != 0) sum = fmaf(weights[key], y[key * width + i], sum);
    }
    task.out[row * width + i] = sum;
  }
}

}  // namespace

void multiply_rows(const MultiplyRows& task, cudaStream_t stream) {
  const dim3 grid(blocks_of(task.n, kThreads), blocks_of(task.rows, kRows));
  launch(multiply_tile, {grid, kThreads, kRows * ((task.k + 1) / 2 * 2) * sizeof(float)}, stream, task);
}

void run_lstms(const RunLstms& task, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(task.sequences), static_cast<unsigned>(task.directions));
  const unsigned threads = min(kMostThreads, blocks_of(4 * task.units, kWarp) * kWarp);
  launch(run_lstm, {grid, threads, ((task.units + 1) / 2 * 2 + 5 * task.units) * sizeof(float)}, stream, task);
}

void attend_rows(const AttendRows& task, cudaStream_t stream) {
  launch(attend_row,
         {blocks_of(task.rows, kThreads / kWarp), kThreads, kThreads / kWarp * task.longest * sizeof(float)}, stream,
         task);
}

}  // namespace sida::cuda
