// Products of activations in 8 bits. A warp multiplies 16 rows by a panel, one slice at a time, on tensor cores, and
// has after each part, the inputs that share a scale, their exact sums. The sums times their scales are then added in
// the order of the inputs, from 0, by fused multiply-adds: so does the CPU.
//
// Few rows: the warps of a block divide the slices of a panel and leave sums and scales in shared memory. Many rows:
// each warp has 16 rows of its own and all slices.
#include <algorithm>
#include <type_traits>

#include "ops/cuda/portable_epilogue.cuh"
#include "ops/cuda/rounded.h"
#include "ops/cuda/slice_sums.cuh"
#include "ops/cuda/weight_codes.cuh"

namespace sida::cuda {
namespace {

constexpr uint32_t kTileRows = 16;
constexpr uint32_t kFewWarps = 8, kManyWarps = 4;
/// Of a block that has no need to ask for more.
constexpr size_t kSharedBytes = size_t{48} << 10;

struct ProductPart {
  const uint32_t* gather;
  const std::byte* weights;
  const float* bias;
  float* y;
  uint32_t first, gather_divisor, rows;
};

/// A kernel's parameters, by value. Below 4 KB.
struct RoundedArguments {
  ProductPart products[kMaxProducts];
  const ProductRows* list;  ///< as in GemmArguments
  const float* floats;      ///< rows (.., k) that `x` has the codes of; needed for `list`
  RoundedRows x;
  size_t y_stride;
  size_t panel_stride;  ///< bytes
  uint32_t count, max_rows;
  uint32_t k, n;
  Epilogue epilogue;
};
static_assert(sizeof(RoundedArguments) <= 4096);

template <class Weights>
constexpr uint32_t scaled_inputs_of() {
  if constexpr (grouped(Weights::kType)) return Weights::kScaled;
  return kSliceInputs;  // int8: the sums of all slices are added before they are scaled
}

/// Parts of a slice.
template <class Weights>
constexpr uint32_t kParts = kSliceInputs / scaled_inputs_of<Weights>();

/// A lane's sums of one part: 16 rows by the 32 columns of a panel in the layout of the mma. Of row lane / 4 + 8 h,
/// column 8 (lane % 4) + i is of[i % 4][2 h + i / 4].
struct PartSums {
  int32_t of[kTiles][4] = {};
  int32_t inputs[4] = {};  ///< of the rows' codes, the same in each column
};

/// As product_of_block().
__device__ const ProductPart& part_of_block(const RoundedArguments& t) {
  __shared__ ProductPart part;
  if (threadIdx.x == 0) {
    if (t.list != nullptr) {
      const ProductRows& own = t.list[blockIdx.z];
      const auto first = static_cast<uint32_t>(static_cast<size_t>(own.x - t.floats) / t.k);
      part = {own.gather, own.weights, own.bias, own.y, first, own.gather_divisor, own.rows};
    } else {
      part = t.products[blockIdx.z];
    }
  }
  __syncthreads();
  return part;
}

__device__ uint32_t codes_at(const int8_t* row, uint32_t at) { return *reinterpret_cast<const uint32_t*>(row + at); }

/// The row of codes that a product's row reads. Missing rows read the last one again.
__device__ uint32_t code_row(const ProductPart& product, uint32_t row) {
  row = min(row, product.rows - 1);
  return product.gather == nullptr ? product.first + row : product.gather[row] / product.gather_divisor;
}

/// What the bytes behind a part's codes say of the lane's columns.
template <class Weights>
__device__ void load_factors(const std::byte* panel, uint32_t first, uint32_t k, uint32_t lane, GroupFactors& out) {
  const auto words_at = [&](size_t offset) {
    return __ldg(reinterpret_cast<const uint4*>(panel + offset + lane % 4 * 16));
  };
  GroupWords words;
#pragma unroll
  for (uint32_t i = 0; i < Weights::kWords; ++i) {
    words.scales[i] = words_at(Weights::scales_offset(first, k) + i * kGroupScaleBytes);
  }
  if constexpr (Weights::kSupers > 0) {
#pragma unroll
    for (uint32_t which = 0; which < Weights::kSupers; ++which) {
      words.supers[which] = words_at(Weights::super_offset(first, which));
    }
  }
  Weights::factors(words, first % Weights::kGroup / Weights::kScaled, out);
}

/// take(part, sums) for each part of the slice from `begin` on, in order, also those past k. `rows`: the lane's two.
template <class Weights, class Take>
__device__ void each_part(const std::byte* panel, uint32_t k, uint32_t begin, const int8_t* const (&rows)[2],
                          const Take& take) {
  constexpr bool kHalves = step_has_scales<Weights>();
  const uint32_t lane = threadIdx.x % kWarp, q = lane % 4;
  uint4 words[kStepPairs][Weights::kLoads];
#pragma unroll
  for (uint32_t pair = 0; pair < kStepPairs; ++pair) {
    const uint32_t first = begin + pair * kStepPairInputs + q * 8;
#pragma unroll
    for (uint32_t i = 0; i < Weights::kLoads; ++i) {
      // Inputs past k have codes 0, whatever their weights are.
      words[pair][i] = make_uint4(0, 0, 0, 0);
      if (in_panel<Weights>(first, i, k)) {
        words[pair][i] =
            __ldg(reinterpret_cast<const uint4*>(panel + Weights::offset(first, static_cast<int>(i)) + lane / 4 * 16));
      }
    }
  }
  PartSums sums;
#pragma unroll
  for (uint32_t pair = 0; pair < kStepPairs; ++pair) {
    const uint32_t at = begin + pair * kStepPairInputs + q * Weights::kHead;
    const uint32_t head[2] = {codes_at(rows[0], at), codes_at(rows[1], at)};
    const uint32_t tail[2] = {codes_at(rows[0], at + Weights::kTail), codes_at(rows[1], at + Weights::kTail)};
#pragma unroll
    for (int step = 0; step < (kHalves ? 2 : 1); ++step) {
      // With scales for each step the other step's inputs are 0.
      const bool first_half = !kHalves || step == 0, last_half = !kHalves || step == 1;
      const uint32_t a[4] = {first_half ? head[0] : 0, first_half ? head[1] : 0, last_half ? tail[0] : 0,
                             last_half ? tail[1] : 0};
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint32_t b[2] = {first_half ? signed_codes<Weights>(words[pair], tile, 0, q) : 0,
                               last_half ? signed_codes<Weights>(words[pair], tile, 1, q) : 0};
        mma_int8(sums.of[tile], a, b);
      }
      if constexpr (has_minimum<Weights>()) {
        constexpr uint32_t kOnes[2] = {0x01010101U, 0x01010101U};
        mma_int8(sums.inputs, a, kOnes);
      }
      const uint32_t end = pair * kStepPairInputs + static_cast<uint32_t>(step + 1) * (kHalves ? 16 : 32);
      if (end % scaled_inputs_of<Weights>() != 0) continue;
      take(end / scaled_inputs_of<Weights>() - 1, sums);
      sums = {};
    }
  }
}

/// Parts of a panel.
template <class Weights>
__device__ uint32_t parts_of(uint32_t k) {
  return divided_up(k, scaled_inputs_of<Weights>());
}

/// The sum of an output element, part by part. int8: of all parts before they are scaled.
template <class Weights>
struct Total {
  float value = 0.0f;
  __device__ void add(int32_t sum, float scale) { value = fmaf(static_cast<float>(sum), scale, value); }
  __device__ float output(float, float row_scale) const { return __fmul_rn(value, row_scale); }
};
template <>
struct Total<Int8Weights> {
  int32_t value = 0;
  __device__ void add(int32_t sum, float) { value += sum; }
  __device__ float output(float scale, float row_scale) const {
    return __fmul_rn(__fmul_rn(static_cast<float>(value), scale), row_scale);
  }
};

/// The scale of column `column` of an int8 panel; anything of the others.
template <class Weights>
__device__ float column_scale(const std::byte* panel, uint32_t k, uint32_t column) {
  if constexpr (grouped(Weights::kType)) return 1.0f;
  return reinterpret_cast<const float*>(panel + code_bytes(k, WeightType::kInt8))[column];
}

__device__ void store(const RoundedArguments& t, const ProductPart& product, uint32_t row, uint32_t column,
                      float value) {
  if (row >= product.rows || column >= t.n) return;
  float* y = product.y + row * t.y_stride + column;
  if (product.bias != nullptr) value = __fadd_rn(value, product.bias[column]);
  *y = portable_output(t.epilogue, value, takes_before(t.epilogue) ? *y : 0.0f);
}

/// What a warp of few_rows() leaves of a slice, in shared memory: sums [kParts][room][32], then factors [kParts][32]
/// and, with minimums, [kParts][32] and sums of inputs [kParts][room].
template <class Weights>
struct SharedSlice {
  static constexpr bool kMinimum = has_minimum<Weights>();
  int32_t* sums;
  float* scales;
  float* less;
  int32_t* inputs;

  __host__ __device__ static constexpr uint32_t words(uint32_t room) {
    return kParts<Weights> * (room * kPanelColumns + kPanelColumns * (kMinimum ? 2 : 1) + (kMinimum ? room : 0) + 3) /
           4 * 4;
  }
  __device__ SharedSlice(uint32_t slice, uint32_t room) {
    sums = reinterpret_cast<int32_t*>(dynamic_shared()) + slice * words(room);
    scales = reinterpret_cast<float*>(sums + kParts<Weights> * room * kPanelColumns);
    less = scales + kParts<Weights> * kPanelColumns;
    inputs = reinterpret_cast<int32_t*>(less + kParts<Weights> * kPanelColumns);
  }

  __device__ void keep(uint32_t part, const PartSums& from, uint32_t room, uint32_t lane) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const uint32_t row = lane / 4 + 8 * half;
      if (row >= room) continue;
      auto* to = reinterpret_cast<uint4*>(sums + (part * room + row) * kPanelColumns + lane % 4 * 8);
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        const auto sum = [&](int tile) { return static_cast<uint32_t>(from.of[tile][2 * half + i]); };
        to[i] = make_uint4(sum(0), sum(1), sum(2), sum(3));
      }
      if constexpr (kMinimum) {
        if (lane % 4 == 0) inputs[part * room + row] = from.inputs[2 * half];
      }
    }
  }
  __device__ void keep(uint32_t part, const GroupFactors& factors, uint32_t lane) {
    const uint32_t at = part * kPanelColumns + lane % 4 * 8;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      scales[at + i] = factors.scale[i];
      if constexpr (kMinimum) less[at + i] = factors.less[i];
    }
  }
};

/// Block (x, y, z): rows from 16 x on, panel y, product z. Warps take slices in turns. `room`: rows that fit into the
/// shared memory, no fewer than a tile has.
template <class Weights>
__global__ void __launch_bounds__(kFewWarps* kWarp) few_rounded_rows(const RoundedArguments t, uint32_t room) {
  const ProductPart& product = part_of_block(t);
  const uint32_t first_row = blockIdx.x * kTileRows;
  if (first_row >= product.rows) return;
  const std::byte* panel = product.weights + blockIdx.y * t.panel_stride;
  const uint32_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  const int8_t* rows[2];
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    rows[half] = t.x.codes + code_row(product, first_row + lane / 4 + 8 * half) * t.x.stride;
  }
  const uint32_t slices = divided_up(t.k, kSliceInputs), parts = parts_of<Weights>(t.k);
  const uint32_t count = min(product.rows - first_row, kTileRows);
  // A thread's outputs: column `lane` of rows warp, warp + warps, ...
  Total<Weights> totals[kTileRows];
  for (uint32_t turn = 0; turn < slices; turn += warps) {
    if (turn + warp < slices) {
      SharedSlice<Weights> mine(warp, room);
      const uint32_t begin = (turn + warp) * kSliceInputs;
      if constexpr (grouped(Weights::kType)) {
        // Four lanes have all columns; the other lanes take other parts.
        for (uint32_t part = lane / 4; part < kParts<Weights>; part += kWarp / 4) {
          const uint32_t first = begin + part * scaled_inputs_of<Weights>();
          if (first >= t.k) continue;
          GroupFactors factors;
          load_factors<Weights>(panel, first, t.k, lane, factors);
          mine.keep(part, factors, lane);
        }
      }
      each_part<Weights>(panel, t.k, begin, rows,
                         [&](uint32_t part, const PartSums& sums) { mine.keep(part, sums, room, lane); });
    }
    __syncthreads();
    const uint32_t end = min((turn + warps) * kParts<Weights>, parts);
#pragma unroll
    for (uint32_t i = 0; i < kTileRows; ++i) {
      const uint32_t row = warp + i * warps;
      if (row >= count) break;
      for (uint32_t at = turn * kParts<Weights>; at < end; ++at) {
        const SharedSlice<Weights> slice(at / kParts<Weights> - turn, room);
        const uint32_t part = at % kParts<Weights>;
        const int32_t sum = slice.sums[(part * room + row) * kPanelColumns + lane];
        if constexpr (grouped(Weights::kType)) {
          totals[i].add(sum, slice.scales[part * kPanelColumns + lane]);
        } else {
          totals[i].add(sum, 1.0f);
        }
        if constexpr (has_minimum<Weights>()) {
          totals[i].add(slice.inputs[part * room + row], slice.less[part * kPanelColumns + lane]);
        }
      }
    }
    __syncthreads();
  }
  const float scale = column_scale<Weights>(panel, t.k, lane);
#pragma unroll
  for (uint32_t i = 0; i < kTileRows; ++i) {
    const uint32_t row = warp + i * warps;
    if (row >= count) break;
    const float row_scale = t.x.scales[code_row(product, first_row + row)];
    store(t, product, first_row + row, blockIdx.y * kPanelColumns + lane, totals[i].output(scale, row_scale));
  }
}

/// Block (x, y, z): rows from 16 · kManyWarps · x on, panel y, product z.
template <class Weights>
__global__ void __launch_bounds__(kManyWarps* kWarp) many_rounded_rows(const RoundedArguments t) {
  const ProductPart& product = t.products[blockIdx.z];
  const uint32_t lane = threadIdx.x % kWarp;
  const uint32_t first_row = (blockIdx.x * kManyWarps + threadIdx.x / kWarp) * kTileRows;
  if (first_row >= product.rows) return;
  const std::byte* panel = product.weights + blockIdx.y * t.panel_stride;
  const int8_t* rows[2];
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    rows[half] = t.x.codes + code_row(product, first_row + lane / 4 + 8 * half) * t.x.stride;
  }
  Total<Weights> totals[2][8];
  for (uint32_t begin = 0; begin < t.k; begin += kSliceInputs) {
    each_part<Weights>(panel, t.k, begin, rows, [&](uint32_t part, const PartSums& sums) {
      const uint32_t first = begin + part * scaled_inputs_of<Weights>();
      if (first >= t.k) return;
      GroupFactors factors;
      if constexpr (grouped(Weights::kType)) load_factors<Weights>(panel, first, t.k, lane, factors);
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
          totals[half][i].add(sums.of[i % 4][2 * half + i / 4], factors.scale[i]);
          if constexpr (has_minimum<Weights>()) totals[half][i].add(sums.inputs[2 * half], factors.less[i]);
        }
      }
    });
  }
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    const uint32_t row = first_row + lane / 4 + 8 * half;
    const float row_scale = t.x.scales[code_row(product, row)];
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t column = lane % 4 * 8 + i;
      const float scale = column_scale<Weights>(panel, t.k, column);
      store(t, product, row, blockIdx.y * kPanelColumns + column, totals[half][i].output(scale, row_scale));
    }
  }
}

template <class Weights>
void start_few(const RoundedArguments& t, cudaStream_t stream) {
  const uint32_t room = std::min(t.max_rows, kTileRows);
  const size_t bytes = SharedSlice<Weights>::words(room) * sizeof(int32_t);
  const auto fitting = static_cast<uint32_t>(kSharedBytes / bytes);
  const uint32_t warps = std::min({fitting, kFewWarps, divided_up(t.k, kSliceInputs)});
  const dim3 grid(divided_up(t.max_rows, kTileRows), divided_up(t.n, kPanelColumns), t.count);
  launch(few_rounded_rows<Weights>, {grid, warps * kWarp, warps * bytes}, stream, t, room);
}

template <class Weights>
void start_many(const RoundedArguments& t, cudaStream_t stream) {
  const dim3 grid(divided_up(t.max_rows, kManyWarps * kTileRows), divided_up(t.n, kPanelColumns), t.count);
  launch(many_rounded_rows<Weights>, {grid, kManyWarps * kWarp}, stream, t);
}

void add(RoundedArguments& t, const RoundedProduct& product) {
  t.products[t.count++] = {product.gather, product.w.data,         product.w.bias, product.y,
                           product.first,  product.gather_divisor, product.rows};
  t.max_rows = std::max(t.max_rows, product.rows);
}

RoundedArguments arguments_of(const RoundedRows& x, const PanelMatrix& w, size_t y_stride, Epilogue epilogue) {
  RoundedArguments t{};
  t.x = x;
  t.y_stride = y_stride;
  t.panel_stride = panel_stride(w.k, w.format);
  t.k = static_cast<uint32_t>(w.k);
  t.n = static_cast<uint32_t>(w.n);
  t.epilogue = epilogue;
  return t;
}

void start(WeightFormat format, const RoundedArguments& few, const RoundedArguments& many, cudaStream_t stream) {
  with_weights(format, [&](auto weights) {
    using Weights = decltype(weights);
    if constexpr (!has_bf16(Weights::kType)) {
      if (few.count > 0) start_few<Weights>(few, stream);
      if (many.count > 0) start_many<Weights>(many, stream);
    }
  });
}

}  // namespace

void gemm_rounded(const RoundedRows& x, std::span<const RoundedProduct> products, size_t y_stride, Epilogue epilogue,
                  cudaStream_t stream) {
  if (products.empty()) return;
  const PanelMatrix& w = products.front().w;
  RoundedArguments few = arguments_of(x, w, y_stride, epilogue), many = few;
  for (const RoundedProduct& product : products) {
    if (product.rows > 0) add(product.rows <= kTileRows ? few : many, product);
  }
  start(w.format, few, many, stream);
}

void gemm_rounded(const RoundedRows& x, const float* floats, const ListedProducts& products, Epilogue epilogue,
                  cudaStream_t stream) {
  RoundedArguments few = arguments_of(x, products.form, products.form.n, epilogue);
  few.list = products.list;
  few.floats = floats;
  few.count = products.most;
  few.max_rows = products.most_rows;
  start(products.form.format, few, {}, stream);
}

}  // namespace sida::cuda
