// Many rows: arithmetic is the limit. The warps of a block, each with 32 rows by one panel, share the weights and x of
// 32 inputs at a time, which asynchronous copies load some steps ahead. Each block splits x into its two parts once.
// Slices are summed one after the other.
#include "ops/cuda/gemm_kernels.h"
#include "ops/cuda/slice_sums.cuh"

namespace sida::cuda {
namespace {

constexpr uint32_t kRowGroups = 2;
/// Row tiles of a warp.
constexpr uint32_t kWarpTiles = 4;
constexpr uint32_t kBlockTiles = kRowGroups * kWarpTiles;
constexpr uint32_t kBlockRows = kBlockTiles * kTileRowsOfMma;
/// Step pairs whose bytes are loading or loaded.
constexpr uint32_t kStages = 4;
/// With at least this many blocks, blocks of four panels keep the device busy; otherwise blocks have two.
constexpr size_t kManyBlocks = 132;

/// Kinds of scales.
template <class Weights>
constexpr uint32_t scale_chunks() {
  if constexpr (grouped(Weights::kType)) {
    return Weights::kWords + Weights::kSupers;
  } else {
    return 0;
  }
}

/// 16-byte chunks of shared memory. A stage's weights lie as the lanes take them: [panel][load][lane].
template <class Weights, uint32_t kPanels>
struct Chunks {
  static constexpr uint32_t kThreads = kRowGroups * kPanels * kWarp;
  static constexpr uint32_t kWeights = kPanels * Weights::kLoads * kWarp;
  /// Of each panel the group's scales, then the numbers for 256 inputs.
  static constexpr uint32_t kScales = scale_chunks<Weights>() * kPanels * 4;
  /// f32: [half of a lane's 8 inputs][row tile][lane].
  static constexpr uint32_t kInputs = 2 * kBlockTiles * kWarp;
  static constexpr uint32_t kStage = kWeights + kScales + kInputs;
  /// a-fragments: [step][row tile][lane], two of them.
  static constexpr uint32_t kFragments = 2 * kBlockTiles * kWarp;
  static constexpr size_t kBytes = (kStages * kStage + 2 * kFragments) * sizeof(uint4);
};

/// A block's view of the launch. Block (x, y, z): rows from x · kBlockRows on, panels from y · kPanels on,
/// product z.
template <class Weights, uint32_t kPanels>
struct Block {
  using Shared = Chunks<Weights, kPanels>;
  const GemmArguments& t;
  const ProductRows& product;
  uint32_t first_row, first_panel, panels;
  uint4* shared;

  __device__ uint4* stage(uint32_t pair) const { return shared + pair % kStages * Shared::kStage; }
  __device__ uint4* fragments(uint32_t pair) const {
    return shared + kStages * Shared::kStage + pair % 2 * Shared::kFragments;
  }
  __device__ const std::byte* panel(uint32_t p) const { return product.weights + (first_panel + p) * t.panel_stride; }

  /// Starts loading the weights of step pair `pair`, and the scales of inputs that end with it.
  __device__ void fetch_weights(uint32_t pair) const {
    uint4* to = stage(pair);
#pragma unroll
    for (uint32_t chunk = threadIdx.x; chunk < Shared::kWeights; chunk += Shared::kThreads) {
      const uint32_t p = chunk / (Weights::kLoads * kWarp), load = chunk / kWarp % Weights::kLoads;
      const uint32_t lane = chunk % kWarp, first = pair * kStepPairInputs + lane % 4 * 8;
      if (p < panels && in_panel<Weights>(first, load, t.k)) {
        const size_t offset = Weights::offset(first, static_cast<int>(load)) + lane / 4 * 16;
        copy_async_16(to + chunk, panel(p) + offset);
      } else {
        to[chunk] = make_uint4(Weights::kZeroes, Weights::kZeroes, Weights::kZeroes, Weights::kZeroes);
      }
    }
    if constexpr (grouped(Weights::kType)) {
      const uint32_t slice = pair / kStepPairs * kSliceInputs;
      const uint32_t p = threadIdx.x / 4 % kPanels, kind = threadIdx.x / (kPanels * 4);
      if (p < panels && kind < scale_chunks<Weights>() && ends_part<Weights>(slice, pair % kStepPairs, 1, t.k)) {
        const uint32_t first = (pair + 1) * kStepPairInputs - Weights::kScaled;
        const size_t offset = kind < Weights::kWords ? Weights::scales_offset(first, t.k) + kind * kGroupScaleBytes
                                                     : Weights::super_offset(first, kind - Weights::kWords);
        copy_async_16(to + Shared::kWeights + threadIdx.x, panel(p) + offset + threadIdx.x % 4 * 16);
      }
    }
  }

  /// Starts loading the part of x that this thread will split; each warp goes tile by tile.
  template <uint32_t kTurns>
  __device__ void fetch_inputs(uint32_t pair, const float* const (&rows)[kTurns]) const {
    uint4* to = stage(pair) + Shared::kWeights + Shared::kScales;
    const uint32_t first = pair * kStepPairInputs + threadIdx.x % 4 * Weights::kHead;
#pragma unroll
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      uint4* head = to + turn * Shared::kThreads + threadIdx.x;
      uint4* tail = head + kBlockTiles * kWarp;
      if (rows[turn] != nullptr && t.x_vectors && first + Weights::kTail + 4 <= t.k) {
        copy_async_16(head, rows[turn] + first);
        copy_async_16(tail, rows[turn] + first + Weights::kTail);
        continue;
      }
      float x[8] = {};
      if (rows[turn] != nullptr) load_floats(rows[turn], first, Weights::kTail, t.k, x);
      memcpy(head, x, sizeof *head);
      memcpy(tail, x + 4, sizeof *tail);
    }
  }

  /// Splits the inputs that this thread loaded.
  template <uint32_t kTurns>
  __device__ void split(uint32_t pair, const float* const (&)[kTurns]) const {
    const uint4* from = stage(pair) + Shared::kWeights + Shared::kScales;
#pragma unroll
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      const uint32_t chunk = turn * Shared::kThreads + threadIdx.x;
      const uint4 head = from[chunk], tail = from[kBlockTiles * kWarp + chunk];
      const float x[8] = {__uint_as_float(head.x), __uint_as_float(head.y), __uint_as_float(head.z),
                          __uint_as_float(head.w), __uint_as_float(tail.x), __uint_as_float(tail.y),
                          __uint_as_float(tail.z), __uint_as_float(tail.w)};
      uint32_t a[2][4];
      split_inputs<Weights::kAlternate>(x, a);
      uint4* to = fragments(pair) + chunk;
      to[0] = make_uint4(a[0][0], a[0][1], a[0][2], a[0][3]);
      to[kBlockTiles * kWarp] = make_uint4(a[1][0], a[1][1], a[1][2], a[1][3]);
    }
  }

  /// sums += x · W of step pair `pair`, for the warp's row tiles from `tile` on and its panel. Groups are summed in
  /// `group`.
  __device__ void multiply(uint32_t pair, uint32_t first_tile, uint32_t p, TileSums (&sums)[kWarpTiles],
                           TileSums (&group)[kWarpTiles]) const {
    constexpr bool kGroups = grouped(Weights::kType);
    const uint32_t lane = threadIdx.x % kWarp;
    InputSums inputs[kWarpTiles];
    uint4 words[Weights::kLoads];
#pragma unroll
    for (uint32_t i = 0; i < Weights::kLoads; ++i) words[i] = stage(pair)[(p * Weights::kLoads + i) * kWarp + lane];
    if constexpr (Weights::kType == WeightType::kBf16c) {
      Weights::decode(panel(p), pair * kStepPairInputs, t.k, lane, words);
    }
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint32_t a[kWarpTiles][4];
#pragma unroll
      for (uint32_t r = 0; r < kWarpTiles; ++r) {
        const uint32_t row_tile = static_cast<uint32_t>(step) * kBlockTiles + first_tile + r;
        const uint4 fragment = fragments(pair)[row_tile * kWarp + lane];
        a[r][0] = fragment.x, a[r][1] = fragment.y, a[r][2] = fragment.z, a[r][3] = fragment.w;
        if constexpr (has_minimum<Weights>()) add_inputs(inputs[r], a[r]);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        uint32_t b[2];
        Weights::fragment(words, tile, step, lane % 4, b);
#pragma unroll
        for (uint32_t r = 0; r < kWarpTiles; ++r) mma_bf16((kGroups ? group : sums)[r].of[tile], a[r], b);
      }
      if constexpr (kGroups) {
        if (ends_part<Weights>(pair / kStepPairs * kSliceInputs, pair % kStepPairs, step, t.k)) {
          GroupFactors factors;
          Weights::factors(group_words(pair, p, lane), part_of<Weights>(pair, step), factors);
#pragma unroll
          for (uint32_t r = 0; r < kWarpTiles; ++r) {
            add_group<Weights::kMinimum>(sums[r], group[r], inputs[r], factors);
            if constexpr (step_has_scales<Weights>()) inputs[r] = {};
          }
        }
      }
    }
  }

  /// For a lane's columns in panel `p`, of the group that ends with `pair`.
  __device__ GroupWords group_words(uint32_t pair, uint32_t p, uint32_t lane) const {
    const uint4* from = stage(pair) + Shared::kWeights + p * 4 + lane % 4;
    GroupWords words;
#pragma unroll
    for (uint32_t i = 0; i < scale_chunks<Weights>(); ++i) {
      (i < Weights::kWords ? words.scales[i] : words.supers[i - Weights::kWords]) = from[i * kPanels * 4];
    }
    return words;
  }
};

template <class Weights, uint32_t kPanels>
__global__ void __launch_bounds__(Chunks<Weights, kPanels>::kThreads) many_rows(const GemmArguments t) {
  using Shared = Chunks<Weights, kPanels>;
  const ProductRows& product = product_of(t, blockIdx.z);
  if (blockIdx.x * kBlockRows >= product.rows || blockIdx.y * kPanels * kPanelColumns >= product.n) return;
  const Block<Weights, kPanels> block{t,
                                      product,
                                      blockIdx.x * kBlockRows,
                                      blockIdx.y * kPanels,
                                      min(kPanels, divided_up(product.n, kPanelColumns) - blockIdx.y * kPanels),
                                      reinterpret_cast<uint4*>(dynamic_shared())};
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const uint32_t p = warp % kPanels, first_tile = warp / kPanels * kWarpTiles;
  const uint32_t warp_row = block.first_row + first_tile * kTileRowsOfMma;
  const bool idle = warp_row >= block.product.rows || p >= block.panels;
  // The rows that this thread splits: those of tile `warp`, and of further tiles where there are fewer warps than
  // tiles.
  constexpr uint32_t kTurns = kBlockTiles * kWarp / Shared::kThreads;
  const float* rows[kTurns];
#pragma unroll
  for (uint32_t turn = 0; turn < kTurns; ++turn) {
    const uint32_t tile = turn * (Shared::kThreads / kWarp) + warp;
    const uint32_t choice = choice_of(block.product, block.first_row + tile * kTileRowsOfMma + lane / 4);
    rows[turn] = row_of_choice(t, block.product, choice);
  }
  const uint32_t pairs = divided_up(t.k, kSliceInputs) * kStepPairs;
#pragma unroll
  for (uint32_t pair = 0; pair < kStages - 1; ++pair) {
    block.fetch_weights(pair);
    block.fetch_inputs(pair, rows);
    copy_async_commit();
  }
  TileSums sums[kWarpTiles], group[kWarpTiles];
  float totals[kWarpTiles][8] = {};
#pragma unroll
  for (uint32_t r = 0; r < kWarpTiles; ++r) {
    clear(sums[r]);
    clear(group[r]);
  }
  for (uint32_t pair = 0; pair < pairs; ++pair) {
    copy_async_wait<kStages - 2>();
    block.split(pair, rows);
    // Now all warps see this pair's weights and fragments, and none uses the previous pair, whose stage is filled next.
    __syncthreads();
    if (pair + kStages - 1 < pairs) {
      block.fetch_weights(pair + kStages - 1);
      block.fetch_inputs(pair + kStages - 1, rows);
    }
    copy_async_commit();
    if (idle) continue;
    block.multiply(pair, first_tile, p, sums, group);
    if (pair % kStepPairs != kStepPairs - 1) continue;
#pragma unroll
    for (uint32_t r = 0; r < kWarpTiles; ++r) {
      float columns[8];
      slice_sums(sums[r], columns);
#pragma unroll
      for (int i = 0; i < 8; ++i) totals[r][i] += columns[i];
      clear(sums[r]);
    }
  }
  if (idle) return;
  const uint32_t in_panel = lane % 4 * 8, column = (block.first_panel + p) * kPanelColumns + in_panel;
  if constexpr (Weights::kType == WeightType::kInt8) {
    const auto* scales = reinterpret_cast<const float*>(block.panel(p) + code_bytes(t.k, WeightType::kInt8)) + in_panel;
#pragma unroll
    for (uint32_t r = 0; r < kWarpTiles; ++r) {
#pragma unroll
      for (int i = 0; i < 8; ++i) totals[r][i] *= scales[i];
    }
  }
#pragma unroll
  for (uint32_t r = 0; r < kWarpTiles; ++r) {
    store_outputs(t, block.product, warp_row + r * kTileRowsOfMma + lane / 4, column, totals[r]);
  }
}

template <class Weights, uint32_t kPanels>
void start(const GemmArguments& t, cudaStream_t stream) {
  using Shared = Chunks<Weights, kPanels>;
  // More shared memory than a kernel has by default. Errors show at the launch.
  cudaFuncSetAttribute(many_rows<Weights, kPanels>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(Shared::kBytes));
  const LaunchShape shape{{divided_up(t.max_rows, kBlockRows), divided_up(t.max_n, kPanels * kPanelColumns), t.count},
                          Shared::kThreads,
                          Shared::kBytes};
  launch(many_rows<Weights, kPanels>, shape, stream, t);
}

template <class Weights>
void start_many_rows(const GemmArguments& t, cudaStream_t stream) {
  if constexpr (!in_planes(Weights::kType)) {
    if (many_rows_blocks(t) >= 2 * kManyBlocks) return start<Weights, 4>(t, stream);
  }
  start<Weights, 2>(t, stream);
}

}  // namespace

size_t many_rows_blocks(const GemmArguments& t) {
  size_t blocks = 0;
  for (uint32_t i = 0; i < t.count; ++i) {
    blocks += size_t{divided_up(t.products[i].rows, kBlockRows)} * divided_up(t.products[i].n, 2 * kPanelColumns);
  }
  return blocks;
}

void gemm_many_rows(WeightFormat format, const GemmArguments& arguments, cudaStream_t stream) {
  with_weights(format, [&](auto weights) { start_many_rows<decltype(weights)>(arguments, stream); });
}

}  // namespace sida::cuda
