// f32 weights: fused multiply-adds. A warp sums one slice of a panel for 8 rows or for one, with one lane for each
// column. The warps of a block divide the slices among them.
#include <algorithm>

#include "ops/cuda/gemm_end.cuh"
#include "ops/cuda/gemm_kernels.h"

namespace sida::cuda {
namespace {

/// A router's product with one row has few blocks and little to compute: its time is that of one warp, which waits for
/// its loads. So there a block has more warps, and each more loads in flight.
template <uint32_t kRows>
struct Form {
  static constexpr uint32_t kMaxWarps = kRows == 1 ? 16 : 8;
  /// Weights of a column that are loaded ahead.
  static constexpr uint32_t kAhead = kRows == 1 ? 64 : 32;
  static constexpr uint32_t kSums = kRows * kPanelColumns;
  static constexpr uint32_t kInputs = kRows * kSliceInputs;
};

/// Copies the slice from `begin` on of the rows to `x`, [kRows][kSliceInputs]; zeros past k and for null
/// rows.
template <uint32_t kRows>
__device__ void load_slice(const GemmArguments& t, const float* const (&rows)[kRows], uint32_t begin, float* x) {
  const uint32_t first = threadIdx.x % kWarp * 4;
  const bool vectors = t.x_vectors && begin + kSliceInputs <= t.k;
  float4 inputs[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) {
    inputs[r] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (rows[r] == nullptr) continue;
    if (vectors) {
      inputs[r] = *reinterpret_cast<const float4*>(rows[r] + begin + first);
    } else {
      const uint32_t k = begin + first;
      if (k < t.k) inputs[r].x = rows[r][k];
      if (k + 1 < t.k) inputs[r].y = rows[r][k + 1];
      if (k + 2 < t.k) inputs[r].z = rows[r][k + 2];
      if (k + 3 < t.k) inputs[r].w = rows[r][k + 3];
    }
  }
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) *reinterpret_cast<float4*>(x + r * kSliceInputs + first) = inputs[r];
}

/// The weights of this lane's column for inputs [first, first + kAhead); zeros past k.
template <uint32_t kAhead>
__device__ void load_weights(const GemmArguments& t, const float* panel, uint32_t first, float (&w)[kAhead]) {
  const float* column = panel + size_t{first} * kPanelColumns + threadIdx.x % kWarp;
  if (first + kAhead <= t.k) {
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) w[i] = __ldg(column + i * kPanelColumns);
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < kAhead; ++i) w[i] = first + i < t.k ? __ldg(column + i * kPanelColumns) : 0.0f;
}

/// Writes the sums of one slice, [kRows][32], to `out`. `x`: kInputs floats of scratch memory for this warp.
template <uint32_t kRows>
__device__ void sum_slice(const GemmArguments& t, const float* panel, const float* const (&rows)[kRows], uint32_t begin,
                          float* x, float* out) {
  constexpr uint32_t kAhead = Form<kRows>::kAhead;
  const uint32_t lane = threadIdx.x % kWarp;
  float w[kAhead];
  load_weights(t, panel, begin, w);
  // Other lanes may still read the previous slice's x.
  __syncwarp();
  load_slice(t, rows, begin, x);
  __syncwarp();
  float sum[kRows] = {};
#pragma unroll
  for (uint32_t part = 0; part < kSliceInputs; part += kAhead) {
    if (part > 0) load_weights(t, panel, begin + part, w);
#pragma unroll
    for (uint32_t i = 0; i < kAhead; i += 4) {
#pragma unroll
      for (uint32_t r = 0; r < kRows; ++r) {
        const float4 inputs = *reinterpret_cast<const float4*>(x + r * kSliceInputs + part + i);
        sum[r] = fmaf(inputs.x, w[i], sum[r]);
        sum[r] = fmaf(inputs.y, w[i + 1], sum[r]);
        sum[r] = fmaf(inputs.z, w[i + 2], sum[r]);
        sum[r] = fmaf(inputs.w, w[i + 3], sum[r]);
      }
    }
  }
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) out[r * kPanelColumns + lane] = sum[r];
}

/// Block (x, y, z): rows from kRows · x on, panel y, product z. Shared memory: each warp's x, each warp's sums, the
/// totals, and the totals of x·gate.
template <uint32_t kRows>
__global__ void __launch_bounds__(Form<kRows>::kMaxWarps* kWarp) f32_rows(const GemmArguments t) {
  constexpr uint32_t kSums = Form<kRows>::kSums, kInputs = Form<kRows>::kInputs;
  const ProductRows& product = product_of_block(t);
  const uint32_t first_row = blockIdx.x * kRows;
  if (first_row >= product.rows || blockIdx.y * kPanelColumns >= product.n) return;
  const auto* panel = reinterpret_cast<const float*>(product.weights + blockIdx.y * t.panel_stride);
  const float* rows[kRows];
#pragma unroll
  for (uint32_t r = 0; r < kRows; ++r) rows[r] = row_of_choice(t, product, choice_of(product, first_row + r));
  const uint32_t warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  auto* inputs = reinterpret_cast<float*>(dynamic_shared());
  float* sums = inputs + warps * kInputs;
  float* totals = sums + warps * kSums;
  float* gates = totals + kSums;
  const uint32_t slices = divided_up(t.k, kSliceInputs);
  // First x·gate, if there is a gate, then x·W.
  bool of_gate = t.gated;
  if (of_gate) panel = bytes_from(panel, t.gate.weights);
  for (uint32_t first = 0; first < slices;) {
    const uint32_t count = min(warps, slices - first);
    if (warp < count) {
      sum_slice(t, panel, rows, (first + warp) * kSliceInputs, inputs + warp * kInputs, sums + warp * kSums);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kSums; i += blockDim.x) {
      float total = first == 0 ? 0.0f : totals[i];
      for (uint32_t s = 0; s < count; ++s) total += sums[s * kSums + i];
      if (first + count < slices) {
        totals[i] = total;
      } else if (of_gate) {
        gates[i] = total;
      } else {
        const uint32_t column = blockIdx.y * kPanelColumns + i % kPanelColumns;
        store_output(t, product, first_row + i / kPanelColumns, column, total, t.gated ? gates[i] : 0.0f);
      }
    }
    __syncthreads();
    first += warps;
    if (of_gate && first >= slices) {
      of_gate = false;
      panel = bytes_from(panel, -t.gate.weights);
      first = 0;
    }
  }
  run_end(t);
}

template <uint32_t kRows>
void start(const GemmArguments& t, cudaStream_t stream) {
  using Form = Form<kRows>;
  const uint32_t warps = min(divided_up(t.k, kSliceInputs), Form::kMaxWarps);
  const size_t floats = warps * (Form::kInputs + Form::kSums) + (t.gated ? 2 : 1) * Form::kSums;
  const LaunchShape shape{{divided_up(t.max_rows, kRows), divided_up(t.max_n, kPanelColumns), t.count},
                          warps * kWarp,
                          std::max(floats * sizeof(float), end_bytes(t, warps))};
  launch(f32_rows<kRows>, shape, stream, t);
}

}  // namespace

void gemm_f32(const GemmArguments& t, cudaStream_t stream) {
  t.max_rows == 1 ? start<1>(t, stream) : start<8>(t, stream);
}

}  // namespace sida::cuda
