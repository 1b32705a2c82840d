#include "ops/cuda/delta.h"
#include "ops/cuda/warp.h"

namespace sida::cuda {
namespace {

constexpr unsigned kThreads = 128;
constexpr unsigned kWarps = kThreads / kWarp;

__device__ float* state_of(const StateLayer& layer, const PagedBatch& batch, const PagedSequence& sequence) {
  return layer.page0 + batch.page_table[sequence.pages] * layer.page_floats;
}

__device__ float sigmoid(float x) { return fmaf(x, 0.0f, 1.0f / (1.0f + expf(-x))); }

/// One thread for each column of a sequence.
__global__ void convolve_columns(StateLayer layer, PagedBatch batch, Convolution of) {
  const PagedSequence sequence = batch.sequences[blockIdx.x];
  const size_t column = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (column >= of.width) return;
  float* kept = state_of(layer, batch, sequence) + of.kept + column;
  const float* taps = of.taps + column * of.count;
  const size_t last = of.count - 1;
  float inputs[DeltaSpec::kMostTaps];
  for (size_t i = 0; i < last; ++i) inputs[i] = sequence.past == 0 ? 0.0f : kept[i * of.width];
  for (uint32_t row = 0; row < sequence.count; ++row) {
    float* x = of.x + (sequence.begin + row) * of.width + column;
    inputs[last] = *x;
    float sum = 0;
    for (size_t i = 0; i < of.count; ++i) sum = fmaf(taps[i], inputs[i], sum);
    *x = sum * sigmoid(sum);
    for (size_t i = 0; i < last; ++i) inputs[i] = inputs[i + 1];
  }
  for (size_t i = 0; i < last; ++i) kept[i * of.width] = inputs[i];
}

/// One warp for each row.
__global__ void scale_to_length(float* x, size_t rows, size_t n, float length) {
  const size_t row = blockIdx.x * size_t{kWarps} + threadIdx.x / kWarp;
  if (row >= rows) return;
  x += row * n;
  float squares = 0;
  for (size_t i = threadIdx.x % kWarp; i < n; i += kWarp) squares = fmaf(x[i], x[i], squares);
  const float scale = length / sqrtf(warp_sum(squares) + kUnitEpsilon);
  for (size_t i = threadIdx.x % kWarp; i < n; i += kWarp) x[i] *= scale;
}

__global__ void make_each_rate(DeltaRates of) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i >= of.tokens * of.heads) return;
  of.betas[i] = sigmoid(of.betas[i]);
  const float step = of.decays[i] + of.bias[i % of.heads];
  of.decays[i] = expf(of.rate[i % of.heads] * (step > 20 ? step : log1pf(expf(step))));
}

/// One thread for each column of a head's state.
__global__ void learn(StateLayer layer, PagedBatch batch, DeltaHeads of) {
  const PagedSequence sequence = batch.sequences[blockIdx.x];
  const size_t head = blockIdx.y, column = blockIdx.z * size_t{kThreads} + threadIdx.x;
  if (column >= of.value_dim) return;
  const size_t key_head = of.tiled ? head % of.key_heads : head / (of.value_heads / of.key_heads);
  float* state = state_of(layer, batch, sequence) + of.kept_inputs + head * of.key_dim * of.state_stride + column;
  for (size_t i = 0; sequence.past == 0 && i < of.key_dim; ++i) state[i * of.state_stride] = 0;
  for (uint32_t row = 0; row < sequence.count; ++row) {
    const size_t token = sequence.begin + row, first = (token * of.key_heads + key_head) * of.key_dim;
    const float* q = of.queries + first;
    const float* k = of.keys + first;
    const float decay = of.decays[token * of.value_heads + head], beta = of.betas[token * of.value_heads + head];
    float* value = of.values + (token * of.value_heads + head) * of.value_dim + column;
    float known = 0, answer = 0;
    for (size_t i = 0; i < of.key_dim; ++i) known = fmaf(k[i], decay * state[i * of.state_stride], known);
    const float change = beta * (*value - known);
    for (size_t i = 0; i < of.key_dim; ++i) {
      const float next = fmaf(k[i], change, decay * state[i * of.state_stride]);
      state[i * of.state_stride] = next;
      answer = fmaf(q[i], next, answer);
    }
    *value = answer;
  }
}

__global__ void gate_numbers(bool silu, const float* logits, float* x, size_t count) {
  const size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
  if (i < count) x[i] *= (silu ? logits[i] : 1.0f) * sigmoid(logits[i]);
}

}  // namespace

void convolve(const StateLayer& layer, const PagedBatch& batch, size_t sequences, const Convolution& of,
              cudaStream_t stream) {
  if (sequences == 0) return;
  launch(convolve_columns, {{static_cast<unsigned>(sequences), blocks_of(of.width, kThreads)}, kThreads}, stream, layer,
         batch, of);
}

void unit_rows(float* x, size_t rows, size_t n, float length, cudaStream_t stream) {
  if (rows == 0) return;
  launch(scale_to_length, {blocks_of(rows, kWarps), kThreads}, stream, x, rows, n, length);
}

void make_rates(const DeltaRates& rates, cudaStream_t stream) {
  if (rates.tokens == 0) return;
  launch(make_each_rate, {blocks_of(rates.tokens * rates.heads, kThreads), kThreads}, stream, rates);
}

void delta_rule(const StateLayer& layer, const PagedBatch& batch, size_t sequences, const DeltaHeads& heads,
                cudaStream_t stream) {
  if (sequences == 0) return;
  launch(learn,
         {{static_cast<unsigned>(sequences), static_cast<unsigned>(heads.value_heads),
           blocks_of(heads.value_dim, kThreads)},
          kThreads},
         stream, layer, batch, heads);
}

void gate(bool silu, const float* logits, float* x, size_t count, cudaStream_t stream) {
  if (count == 0) return;
  launch(gate_numbers, {blocks_of(count, kThreads), kThreads}, stream, silu, logits, x, count);
}

}  // namespace sida::cuda
