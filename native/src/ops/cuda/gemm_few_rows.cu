// Few rows: the time is that of reading the weights. A warp loads all bytes of a slice before it multiplies the first
// of them, so that a few warps saturate a multiprocessor's share of the bandwidth. The warps of one block divide the
// slices of a panel among them, so that only results are written to memory.
#include <algorithm>

#include "ops/cuda/gemm_end.cuh"
#include "ops/cuda/gemm_kernels.h"
#include "ops/cuda/slice_sums.cuh"

namespace sida::cuda {
namespace {

/// Warps of a block where blocks fill the device, and the most warps where each block has a multiprocessor for itself.
constexpr uint32_t kUsualWarps = 6, kMaxWarps = 12;
constexpr size_t kOneEach = 132;
/// Sums of slices kept in shared memory until all are added, in units of one tile of rows by one panel.
constexpr uint32_t kWaitingSums = 32;
constexpr uint32_t kSumsPerTile = kTileRowsOfMma * kPanelColumns;
/// From this many blocks on the device is full with two panels a block.
constexpr size_t kManyBlocks = 256;

/// A warp's part of the block: the weights of one slice.
template <class Weights, int kPanels>
struct SliceWeights {
  uint4 words[kPanels][kStepPairs][Weights::kLoads];
  /// Of panel lane / 16, group lane / 4 % 4 of the slice, the scales of columns 8 (lane % 4) and on.
  uint4 scales[2];
  /// The numbers `lane / 4 % 4` for 256 inputs, of the same panel and columns.
  uint4 supers;

  template <bool kWhole>
  __device__ void load(const GemmArguments& t, const std::byte* panel, uint32_t panels, uint32_t begin, uint32_t lane) {
#pragma unroll
    for (uint32_t p = 0; p < kPanels; ++p) {
#pragma unroll
      for (uint32_t pair = 0; pair < kStepPairs; ++pair) {
        const uint32_t first = begin + pair * kStepPairInputs + lane % 4 * 8;
#pragma unroll
        for (uint32_t i = 0; i < Weights::kLoads; ++i) {
          uint4& target = words[p][pair][i];
          target = make_uint4(Weights::kZeroes, Weights::kZeroes, Weights::kZeroes, Weights::kZeroes);
          if ((kPanels == 1 || p < panels) && (kWhole || in_panel<Weights>(first, i, t.k))) {
            const size_t offset = p * t.panel_stride + Weights::offset(first, i) + lane / 4 * 16;
            target = load_once_16(panel + offset);
          }
        }
      }
    }
    if constexpr (grouped(Weights::kType)) {
      const uint32_t first = begin + lane / 4 % 4 * Weights::kGroup;
#pragma unroll
      for (uint32_t i = 0; i < Weights::kWords; ++i) {
        scales[i] = make_uint4(0, 0, 0, 0);
        if (lane / 16 < panels && first < begin + kSliceInputs && first < t.k) {
          const size_t offset = lane / 16 * t.panel_stride + Weights::scales_offset(first, t.k) + lane % 4 * 16;
          scales[i] = load_once_16(panel + offset + i * kGroupScaleBytes);
        }
      }
      if constexpr (Weights::kSupers > 0) {
        supers = make_uint4(0, 0, 0, 0);
        const uint32_t which = lane / 4 % 4;
        if (which < Weights::kSupers && lane / 16 < panels && begin < t.k) {
          const size_t offset = lane / 16 * t.panel_stride + Weights::super_offset(begin, which) + lane % 4 * 16;
          supers = load_once_16(panel + offset);
        }
      }
    }
  }

  /// For this lane's columns in panel `p`, of the group that ends with `pair`.
  __device__ GroupWords group_words(uint32_t p, uint32_t pair, uint32_t lane) const {
    GroupWords mine;
#pragma unroll
    for (uint32_t i = 0; i < Weights::kWords; ++i) {
      mine.scales[i] = taken(scales[i], p * 16 + pair * kStepPairInputs / Weights::kGroup * 4 + lane % 4);
    }
    if constexpr (Weights::kSupers > 0) {
#pragma unroll
      for (uint32_t which = 0; which < Weights::kSupers; ++which) {
        mine.supers[which] = taken(supers, p * 16 + which * 4 + lane % 4);
      }
    }
    return mine;
  }

  /// The words of another lane.
  __device__ static uint4 taken(const uint4& words, uint32_t lane) {
    const int source = static_cast<int>(lane);
    return make_uint4(__shfl_sync(kAllLanes, words.x, source), __shfl_sync(kAllLanes, words.y, source),
                      __shfl_sync(kAllLanes, words.z, source), __shfl_sync(kAllLanes, words.w, source));
  }
};

/// Writes the sums of one slice, [kPanels][8 · kRowTiles][32], to `out`. kWhole: the slice does not reach past k and x
/// may be read in vectors; without branches all loads are in flight at once.
template <class Weights, int kPanels, int kRowTiles, bool kWhole>
__device__ void sum_slice(const GemmArguments& t, const ProductRows& product, const std::byte* panel, uint32_t panels,
                          const uint32_t (&choices)[kRowTiles], uint32_t begin, float* out) {
  constexpr bool kGroups = grouped(Weights::kType);
  const uint32_t lane = threadIdx.x % kWarp;
  SliceWeights<Weights, kPanels> weights;
  weights.template load<kWhole>(t, panel, panels, begin, lane);
  const float* rows[kRowTiles];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) rows[r] = row_of_choice(t, product, choices[r]);
  TileSums sums[kPanels][kRowTiles], group[kPanels][kRowTiles];
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      clear(sums[p][r]);
      clear(group[p][r]);
    }
  }
#pragma unroll
  for (uint32_t pair = 0; pair < kStepPairs; ++pair) {
    uint32_t a[kRowTiles][2][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const uint32_t first = begin + pair * kStepPairInputs + lane % 4 * Weights::kHead;
      float x[8];
      if constexpr (kWhole) {
        load_vectors(rows[r] + first, Weights::kTail, x);
      } else {
        load_floats(rows[r], first, Weights::kTail, t.k, x);
      }
      split_inputs<Weights::kAlternate>(x, a[r]);
    }
    // inputs[0] has the sums of the first step, for types whose steps have scales of their own.
    InputSums inputs[2][kRowTiles];
    if constexpr (has_minimum<Weights>()) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        add_inputs(inputs[step_has_scales<Weights>() ? 0 : 1][r], a[r][0]);
        add_inputs(inputs[1][r], a[r][1]);
      }
    }
#pragma unroll
    for (int p = 0; p < kPanels; ++p) {
      if constexpr (Weights::kType == WeightType::kBf16c) {
        Weights::decode(panel, begin + pair * kStepPairInputs, t.k, lane, weights.words[p][pair]);
      }
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          uint32_t b[2];
          Weights::fragment(weights.words[p][pair], tile, step, lane % 4, b);
#pragma unroll
          for (int r = 0; r < kRowTiles; ++r) mma_bf16((kGroups ? group[p][r] : sums[p][r]).of[tile], a[r][step], b);
        }
        if constexpr (kGroups) {
          if (ends_part<Weights>(begin, pair, step, kWhole ? UINT32_MAX : t.k)) {
            GroupFactors factors;
            const GroupWords words = weights.group_words(static_cast<uint32_t>(p), pair, lane);
            Weights::factors(words, part_of<Weights>(pair, step), factors);
#pragma unroll
            for (int r = 0; r < kRowTiles; ++r) {
              add_group<Weights::kMinimum>(sums[p][r], group[p][r], inputs[step][r], factors);
            }
          }
        }
      }
    }
  }
#pragma unroll
  for (int p = 0; p < kPanels; ++p) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      float columns[8];
      slice_sums(sums[p][r], columns);
      float* target = out + (p * kRowTiles + r) * kSumsPerTile + lane / 4 * kPanelColumns + lane % 4 * 8;
      *reinterpret_cast<float4*>(target) = make_float4(columns[0], columns[1], columns[2], columns[3]);
      *reinterpret_cast<float4*>(target + 4) = make_float4(columns[4], columns[5], columns[6], columns[7]);
    }
  }
}

/// The scale of this thread's column in panel `p` of int8 codes.
__device__ float column_scale(const GemmArguments& t, const std::byte* panel, uint32_t p) {
  const std::byte* scales = panel + p * t.panel_stride + code_bytes(t.k, WeightType::kInt8);
  return reinterpret_cast<const float*>(scales)[threadIdx.x % kPanelColumns];
}

/// Block (x, y, z): rows from x · 8 · kRowTiles on, panels from y · kPanels on, product z. Shared memory: the
/// sums of `waiting` slices, then the totals, and the totals of x·gate.
template <class Weights, int kPanels, int kRowTiles, bool kEnds>
__global__ void __launch_bounds__(kMaxWarps* kWarp) few_rows(const GemmArguments t, uint32_t waiting) {
  constexpr uint32_t kSums = kPanels * kRowTiles * kSumsPerTile;
  const ProductRows& product = product_of_block(t);
  const uint32_t first_row = blockIdx.x * kRowTiles * kTileRowsOfMma, first_panel = blockIdx.y * kPanels;
  if (first_row >= product.rows || first_panel * kPanelColumns >= product.n) return;
  const uint32_t panels = min(uint32_t{kPanels}, divided_up(product.n, kPanelColumns) - first_panel);
  const std::byte* panel = product.weights + first_panel * t.panel_stride;
  uint32_t choices[kRowTiles];
#pragma unroll
  for (uint32_t r = 0; r < kRowTiles; ++r) {
    // Missing rows load the last row again: a branch around their loads would serialize the loads of x.
    const uint32_t row = first_row + r * kTileRowsOfMma + threadIdx.x % kWarp / 4;
    choices[r] = choice_of(product, min(row, product.rows - 1));
  }
  // Loaded early because the latency is long. A thread's outputs are all of one column.
  float scales[kPanels];
#pragma unroll
  for (uint32_t p = 0; p < kPanels; ++p) {
    if constexpr (Weights::kType == WeightType::kInt8) scales[p] = column_scale(t, panel, min(p, panels - 1));
  }
  auto* sums = reinterpret_cast<float*>(dynamic_shared());
  float *totals = sums + waiting * kSums, *gates = totals + kSums;
  const uint32_t slices = divided_up(t.k, kSliceInputs);
  // First x·gate, if there is a gate, then x·W.
  bool of_gate = t.gated;
  if (of_gate) panel += t.gate.weights;
  for (uint32_t first = 0; first < slices;) {
    const uint32_t count = min(waiting, slices - first);
    for (uint32_t s = threadIdx.x / kWarp; s < count; s += blockDim.x / kWarp) {
      const uint32_t begin = (first + s) * kSliceInputs;
      float* out = sums + s * kSums;
      if (t.x_vectors && begin + kSliceInputs <= t.k) {
        sum_slice<Weights, kPanels, kRowTiles, true>(t, product, panel, panels, choices, begin, out);
      } else {
        sum_slice<Weights, kPanels, kRowTiles, false>(t, product, panel, panels, choices, begin, out);
      }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < kSums; i += blockDim.x) {
      float total = first == 0 ? 0.0f : totals[i];
#pragma unroll 8
      for (uint32_t s = 0; s < count; ++s) total += sums[s * kSums + i];
      if (first + count < slices) {
        totals[i] = total;
        continue;
      }
      const uint32_t p = i / (kRowTiles * kSumsPerTile), column = i % kPanelColumns;
      const uint32_t row = first_row + i / kPanelColumns % (kRowTiles * kTileRowsOfMma);
      if (p >= panels) break;
      if constexpr (Weights::kType == WeightType::kInt8) {
        total *= of_gate ? column_scale(t, panel, p) : kPanels == 1 || p == 0 ? scales[0] : scales[kPanels - 1];
      }
      if (of_gate) {
        gates[i] = total;
      } else {
        store_output(t, product, row, (first_panel + p) * kPanelColumns + column, total, t.gated ? gates[i] : 0.0f);
      }
    }
    __syncthreads();
    first += waiting;
    if (of_gate && first >= slices) {
      of_gate = false;
      panel -= t.gate.weights;
      first = 0;
    }
  }
  if constexpr (kEnds) run_end(t);
}

template <class Weights, int kPanels, int kRowTiles, bool kEnds = false>
void start(const GemmArguments& t, cudaStream_t stream) {
  const uint32_t slices = divided_up(t.k, kSliceInputs);
  const uint32_t waiting = min(slices, kWaitingSums / (kPanels * kRowTiles));
  const dim3 grid(divided_up(t.max_rows, kRowTiles * kTileRowsOfMma), divided_up(t.max_n, kPanels * kPanelColumns),
                  t.count);
  const uint32_t most = size_t{grid.x} * grid.y * grid.z <= kOneEach ? kMaxWarps : kUsualWarps;
  // The fewest turns possible, then the fewest warps that need no more turns.
  const uint32_t warps = divided_up(waiting, divided_up(waiting, most));
  const size_t floats = (waiting + (t.gated ? 2 : 1)) * kPanels * kRowTiles * kSumsPerTile;
  const LaunchShape shape{grid, warps * kWarp, std::max(floats * sizeof(float), end_bytes(t, warps))};
  launch(few_rows<Weights, kPanels, kRowTiles, kEnds>, shape, stream, t, waiting);
}

size_t two_panel_blocks(const GemmArguments& t) {
  if (t.list != nullptr) return size_t{t.count} * divided_up(t.max_n, 2 * kPanelColumns);
  size_t blocks = 0;
  for (uint32_t i = 0; i < t.count; ++i) blocks += divided_up(t.products[i].n, 2 * kPanelColumns);
  return blocks;
}

template <class Weights>
void start_few_rows(const GemmArguments& t, cudaStream_t stream) {
  // A kernel of its own: the others need all registers for their weights.
  if (t.ends) return start<Weights, 1, 1, true>(t, stream);
  if (t.max_rows > kTileRowsOfMma) return start<Weights, 1, 2>(t, stream);
  if constexpr ((Weights::kLoads == 1 && !in_planes(Weights::kType)) || Weights::kType == WeightType::kInt8) {
    // Two panels share the split of x, and have as many bytes in flight as one bf16 panel. The sums of groups beside
    // words of more loads would not fit into the registers.
    if (two_panel_blocks(t) >= kManyBlocks) return start<Weights, 2, 1>(t, stream);
  }
  start<Weights, 1, 1>(t, stream);
}

}  // namespace

void gemm_few_rows(WeightFormat format, const GemmArguments& arguments, cudaStream_t stream) {
  with_weights(format, [&](auto weights) { start_few_rows<decltype(weights)>(arguments, stream); });
}

}  // namespace sida::cuda
