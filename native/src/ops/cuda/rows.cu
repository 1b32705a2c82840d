#include "ops/cuda/norm_row.cuh"
#include "ops/cuda/weight_fragments.cuh"

namespace sida::cuda {
namespace {

// One warp for each row: a row of Switch-base is six vectors a lane, and no warp waits for another.
constexpr unsigned kNormWarps = 4;
constexpr unsigned kThreads = 128;

/// Rows of `units` units: float4 where the row's width is a multiple of 4, else float.
template <class Unit>
__global__ void norm_rows(const float* x, RowNorm norm, size_t rows, size_t units, float* y) {
  const size_t row = blockIdx.x * size_t{kNormWarps} + threadIdx.x / kWarp;
  if (row >= rows) return;
  norm_row(reinterpret_cast<const Unit*>(x) + row * units, norm, units, reinterpret_cast<Unit*>(y) + row * units);
}

template <class Unit>
__global__ void copy_rows(const float* x, const int32_t* ids, size_t units, float scale, float* y) {
  const size_t unit = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (unit >= units) return;
  const auto* from = reinterpret_cast<const Unit*>(x) + static_cast<size_t>(ids[blockIdx.x]) * units;
  reinterpret_cast<Unit*>(y)[blockIdx.x * units + unit] = scaled(from[unit], scale);
}

/// The inputs of one step of a panel's column.
template <WeightType kType>
struct Step {
  static constexpr size_t kInputs = inputs_per_step(kType);
  float value[kInputs];
};

__device__ float bf16_value(uint32_t bits) { return __uint_as_float(bits << 16); }
__device__ float byte_value(uint32_t word, unsigned byte) {
  return static_cast<float>(static_cast<int8_t>(word >> 8 * byte));
}
template <WeightType kType>
__device__ float nibble_value(uint32_t word, unsigned shift) {
  const uint32_t nibble = word >> shift & 15;
  if constexpr (kType != WeightType::kMxfp4) return static_cast<float>(static_cast<int>(nibble) - 8);
  const auto magnitude = static_cast<float>(0x0c08060403020100ULL >> (8 * (nibble & 7)) & 15);
  return nibble < 8 ? magnitude : -magnitude;
}

template <WeightType kType>
__device__ Step<kType> decoded(uint32_t word, float scale) {
  if constexpr (kType == WeightType::kF32) {
    return {{__uint_as_float(word)}};
  } else if constexpr (kType == WeightType::kBf16) {
    return {{bf16_value(word & 0xffffU), bf16_value(word >> 16)}};
  } else if constexpr (kType == WeightType::kInt8 || kType == WeightType::kQ8_0) {
    return {{byte_value(word, 0) * scale, byte_value(word, 1) * scale, byte_value(word, 2) * scale,
             byte_value(word, 3) * scale}};
  } else {
    Step<kType> step;
    for (unsigned i = 0; i < 4; ++i) {
      step.value[i] = nibble_value<kType>(word, 8 * i) * scale;
      step.value[i + 4] = nibble_value<kType>(word, 8 * i + 4) * scale;
    }
    return step;
  }
}

/// One step of a row: where its codes and its scale are, and which inputs they are.
struct StepPlace {
  const uint32_t* word;
  float scale;
  size_t begin, end;
};

template <WeightType kType>
__device__ StepPlace find_step(const std::byte* panel, const PanelMatrix& w, size_t step, size_t column) {
  if constexpr (grouped(kType)) {
    constexpr size_t kInputs = Step<kType>::kInputs;
    const size_t group = w.format.group, steps = (group + kInputs - 1) / kInputs;
    const size_t first = step / steps * group, inputs = min(group, w.k - first);
    const std::byte* codes = panel + group_offset(first, w.format);
    const uint16_t bits = reinterpret_cast<const uint16_t*>(codes + code_bytes(inputs, kType))[column];
    const bool half = kType == WeightType::kQ8_0 || kType == WeightType::kQ4_0;
    const size_t begin = first + step % steps * kInputs;
    return {reinterpret_cast<const uint32_t*>(codes) + step % steps * kPanelColumns + column,
            half ? f16_value(bits) : bf16_value(bits), begin, min(begin + kInputs, first + inputs)};
  } else {
    constexpr size_t kInputs = Step<kType>::kInputs;
    float scale = 1;
    if constexpr (kType == WeightType::kInt8) {
      scale = reinterpret_cast<const float*>(panel + code_bytes(w.k, kType))[column];
    }
    return {reinterpret_cast<const uint32_t*>(panel) + step * kPanelColumns + column, scale, step * kInputs,
            min((step + 1) * kInputs, w.k)};
  }
}

/// The layout makes each read one word of each line of a panel, so that every word loads a sector (32 bytes) of eight
/// columns.
template <WeightType kType>
__global__ void read_rows(PanelMatrix w, const int32_t* ids, size_t steps, float scale, float* y) {
  constexpr size_t kInputs = Step<kType>::kInputs;
  const size_t number = blockIdx.y * size_t{kThreads} + threadIdx.x;
  if (number >= steps) return;
  const auto id = static_cast<size_t>(ids[blockIdx.x]);
  const std::byte* panel = w.data + id / kPanelColumns * panel_stride(w.k, w.format);
  const StepPlace place = find_step<kType>(panel, w, number, id % kPanelColumns);
  Step<kType> step = decoded<kType>(*place.word, place.scale);
  for (float& value : step.value) value *= scale;
  float* out = y + blockIdx.x * w.k + place.begin;
  if (kInputs % 4 == 0 && w.k % 4 == 0 && place.begin + kInputs == place.end) {
    for (size_t i = 0; i + 4 <= kInputs; i += 4) {
      *reinterpret_cast<float4*>(out + i) = {step.value[i], step.value[i + 1], step.value[i + 2], step.value[i + 3]};
    }
    return;
  }
  for (size_t i = 0; i < kInputs && place.begin + i < place.end; ++i) out[i] = step.value[i];
}

template <WeightType kType>
void read_all(const PanelMatrix& w, const int32_t* ids, size_t count, float scale, float* y, cudaStream_t stream) {
  constexpr size_t kInputs = Step<kType>::kInputs;
  size_t steps = (w.k + kInputs - 1) / kInputs;
  if constexpr (grouped(kType)) {
    const size_t group = w.format.group;
    steps = w.k / group * ((group + kInputs - 1) / kInputs) + (w.k % group + kInputs - 1) / kInputs;
  }
  launch(read_rows<kType>, {{static_cast<unsigned>(count), blocks_of(steps, kThreads)}, kThreads}, stream, w, ids,
         steps, scale, y);
}

/// Rows of a type that sida only copies: four inputs a thread.
template <WeightType kType>
__global__ void read_copied_rows(PanelMatrix w, const int32_t* ids, float scale, float* y) {
  constexpr GroupedType of = grouped_type(kType);
  const size_t first = (blockIdx.y * size_t{kThreads} + threadIdx.x) * 4;
  if (first >= w.k) return;
  const auto id = static_cast<size_t>(ids[blockIdx.x]), column = id % kPanelColumns;
  const std::byte* panel = w.data + id / kPanelColumns * panel_stride(w.k, w.format);
  const size_t in_group = first % of.group, part = in_group / (of.group / of.parts);
  const std::byte* group = panel + group_offset(first - in_group, w.format);
  const auto* words = reinterpret_cast<const uint32_t*>(group) + column;
  const auto word = [&](size_t step, size_t shift) { return words[step * kPanelColumns] >> shift; };
  uint32_t codes;
  if constexpr (kType == WeightType::kQ6_K) {
    codes = word(in_group % 16 / 4, 4 * part) & 0x0f0f0f0fU;
    codes |= (word(4 + part, in_group % 16 / 2) & 0x03030303U) << 4;
  } else {
    codes = of.low == 4 ? word(in_group / 8, in_group % 8) & 0x0f0f0f0fU
                        : word(in_group / 16, in_group % 16 / 2) & 0x03030303U;
    if constexpr (of.high == 1) codes |= (word(of.low, in_group / 4) & 0x01010101U) << of.low;
  }
  const auto* numbers = reinterpret_cast<const uint16_t*>(group + code_bytes(of.group, kType)) + column;
  const uint32_t bits = numbers[0] >> (8 * part);
  float by, less = 0;
  if constexpr (of.supers == 0) {
    by = f16_value(numbers[0]);
    if constexpr (of.minimum) less = -f16_value(numbers[kPanelColumns]);
  } else {
    const auto* super = reinterpret_cast<const uint16_t*>(
                            panel + group_offset(first / kSuperInputs * kSuperInputs, w.format) - super_bytes(kType)) +
                        column;
    constexpr unsigned kBits = of.parts == 1 ? 8 : 4, kMask = (1U << kBits) - 1;
    by = f16_value(super[0]) * code_numbers(of.table).unit *
         (of.minimum ? static_cast<float>(bits & kMask) : static_cast<float>(static_cast<int8_t>(bits)));
    if constexpr (of.minimum) less = f16_value(super[kPanelColumns]) * static_cast<float>(bits >> kBits & kMask);
  }
  float values[4];
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t code = codes >> 8 * i & 255U;
    if constexpr (of.table != CodeTable::kNone) {
      values[i] = static_cast<float>(static_cast<int8_t>(PlaneWeights<kType>::value(code))) * by;
    } else {
      values[i] = static_cast<float>(static_cast<int>(code) - of.zero) * by;
    }
    if constexpr (of.minimum) values[i] -= less;
  }
  *reinterpret_cast<float4*>(y + blockIdx.x * w.k + first) = {values[0] * scale, values[1] * scale, values[2] * scale,
                                                              values[3] * scale};
}

template <WeightType kType>
void read_all_copied(const PanelMatrix& w, const int32_t* ids, size_t count, float scale, float* y,
                     cudaStream_t stream) {
  launch(read_copied_rows<kType>, {{static_cast<unsigned>(count), blocks_of(w.k / 4, kThreads)}, kThreads}, stream, w,
         ids, scale, y);
}

}  // namespace

void norm(const float* x, const RowNorm& norm, size_t rows, size_t n, float* y, cudaStream_t stream) {
  if (rows == 0) return;
  const bool whole = n % 4 == 0;
  launch(whole ? norm_rows<float4> : norm_rows<float>, {blocks_of(rows, kNormWarps), kNormWarps * kWarp}, stream, x,
         norm, rows, whole ? n / 4 : n, y);
}

void rms_norm(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y,
              cudaStream_t stream) {
  norm(x, {weight, nullptr, epsilon}, rows, n, y, stream);
}

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, size_t rows, size_t n, float* y,
                cudaStream_t stream) {
  norm(x, {weight, bias, epsilon}, rows, n, y, stream);
}

void embed(const PanelMatrix& w, const int32_t* ids, size_t count, float scale, float* y, cudaStream_t stream) {
  if (count == 0) return;
  switch (w.format.type) {
    case WeightType::kF32:
      return read_all<WeightType::kF32>(w, ids, count, scale, y, stream);
    case WeightType::kBf16:
      return read_all<WeightType::kBf16>(w, ids, count, scale, y, stream);
    case WeightType::kBf16c:
      break;  // Only experts have it.
    case WeightType::kInt8:
      return read_all<WeightType::kInt8>(w, ids, count, scale, y, stream);
    case WeightType::kInt4:
      return read_all<WeightType::kInt4>(w, ids, count, scale, y, stream);
    case WeightType::kMxfp4:
      return read_all<WeightType::kMxfp4>(w, ids, count, scale, y, stream);
    case WeightType::kQ8_0:
      return read_all<WeightType::kQ8_0>(w, ids, count, scale, y, stream);
    case WeightType::kQ4_0:
      return read_all<WeightType::kQ4_0>(w, ids, count, scale, y, stream);
    case WeightType::kQ4_K:
      return read_all_copied<WeightType::kQ4_K>(w, ids, count, scale, y, stream);
    case WeightType::kQ6_K:
      return read_all_copied<WeightType::kQ6_K>(w, ids, count, scale, y, stream);
    case WeightType::kQ4_1:
      return read_all_copied<WeightType::kQ4_1>(w, ids, count, scale, y, stream);
    case WeightType::kQ5_0:
      return read_all_copied<WeightType::kQ5_0>(w, ids, count, scale, y, stream);
    case WeightType::kQ5_1:
      return read_all_copied<WeightType::kQ5_1>(w, ids, count, scale, y, stream);
    case WeightType::kQ5_K:
      return read_all_copied<WeightType::kQ5_K>(w, ids, count, scale, y, stream);
    case WeightType::kQ3_K:
      return read_all_copied<WeightType::kQ3_K>(w, ids, count, scale, y, stream);
    case WeightType::kQ2_K:
      return read_all_copied<WeightType::kQ2_K>(w, ids, count, scale, y, stream);
    case WeightType::kIq4Nl:
      return read_all_copied<WeightType::kIq4Nl>(w, ids, count, scale, y, stream);
    case WeightType::kIq4Xs:
      return read_all_copied<WeightType::kIq4Xs>(w, ids, count, scale, y, stream);
    case WeightType::kIq2:
      return read_all_copied<WeightType::kIq2>(w, ids, count, scale, y, stream);
    case WeightType::kIq3Xxs:
      return read_all_copied<WeightType::kIq3Xxs>(w, ids, count, scale, y, stream);
    case WeightType::kIq3S:
      return read_all_copied<WeightType::kIq3S>(w, ids, count, scale, y, stream);
  }
}

void take_rows(const float* x, const int32_t* ids, size_t count, size_t n, float scale, float* y, cudaStream_t stream) {
  if (count == 0) return;
  const bool whole = n % 4 == 0;
  const size_t units = whole ? n / 4 : n;
  launch(whole ? copy_rows<float4> : copy_rows<float>,
         {{static_cast<unsigned>(count), blocks_of(units, kThreads)}, kThreads}, stream, x, ids, units, scale, y);
}

}  // namespace sida::cuda
