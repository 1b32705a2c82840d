#pragma once

#include "device/cuda/kernel_language.h"
#include "ops/cuda/gemm.h"

// Every kernel computes an output element in the same way, for any number of rows: k is cut into slices of
// kSliceInputs, each slice is summed by itself, and the sums of the slices are added in ascending order from 0. So a
// kernel may divide the slices among warps or take them one after the other, and no bit changes.
namespace sida::cuda {

inline constexpr uint32_t kSliceInputs = 128;

/// The part of the arguments that differs between products.
struct ProductRows {
  const float* x;
  const uint32_t* gather;
  const std::byte* weights;
  const float* bias;
  float* y;
  uint32_t gather_divisor;
  uint32_t rows;
  uint32_t n;
  uint32_t y_stride;
};

/// Where the gates of a launch lie, counted from each product's weights and bias.
struct GateOffsets {
  ptrdiff_t weights;  ///< bytes
  ptrdiff_t bias;     ///< bytes
};

/// A kernel's parameters: by value, so that a launch copies and allocates nothing. Below 4 KB.
struct GemmArguments {
  ProductRows products[kMaxProducts];
  size_t x_stride;
  size_t panel_stride;  ///< bytes
  GateOffsets gate;
  uint32_t count;     ///< products
  uint32_t max_rows;  ///< of a product
  uint32_t max_n;     ///< the same
  uint32_t k;
  GemmEnd end;  ///< of the only product
  Epilogue epilogue;
  bool ends;       ///< there is an end
  bool gated;      ///< the products have gates
  bool x_vectors;  ///< every row of x begins at a multiple of 16 bytes
  bool y_vectors;  ///< and of y
};
static_assert(sizeof(GemmArguments) <= 4096);

__host__ __device__ constexpr uint32_t divided_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

__device__ inline const ProductRows& product_of(const GemmArguments& t, uint32_t index) { return t.products[index]; }

__device__ inline const float* bytes_from(const float* numbers, ptrdiff_t bytes) {
  return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(numbers) + bytes);
}

/// choice_of() of a row that a product does not have.
inline constexpr uint32_t kNoChoice = UINT32_MAX;

__device__ inline uint32_t choice_of(const ProductRows& product, uint32_t row) {
  if (row >= product.rows) return kNoChoice;
  return product.gather == nullptr ? row : product.gather[row];
}

/// The row of x that a choice reads; null for kNoChoice. Separate from choice_of(), so that loads issued between the
/// two calls do not wait for `gather`.
__device__ inline const float* row_of_choice(const GemmArguments& t, const ProductRows& product, uint32_t choice) {
  if (choice == kNoChoice) return nullptr;
  const size_t row = product.gather == nullptr ? choice : choice / product.gather_divisor;
  return product.x + row * t.x_stride;
}

/// Whether the epilogue reads the old value of y.
__device__ inline bool takes_before(Epilogue epilogue) {
  return epilogue == Epilogue::kAdd || epilogue == Epilogue::kSwiglu || epilogue == Epilogue::kClampedSwiglu ||
         epilogue == Epilogue::kGeglu;
}

/// `value` between the limits. A NaN stays NaN, and an infinity becomes NaN, as it must not become a valid limit.
__device__ inline float clamped(float value, float low, float high) {
  return fmaf(value, 0.0f, value > high ? high : value < low ? low : value);
}

__device__ inline float clamped_swiglu(float gate, float up) {
  const float g = clamped(gate, -INFINITY, kGateLimit), u = clamped(up, -kGateLimit, kGateLimit);
  return g / (1.0f + expf(-kGateSlope * g)) * (u + 1.0f);
}

__device__ inline float tanh_gelu(float gate) {
  const float cube = gate * gate * (gate * kGeluCube);
  return fmaf(gate, 0.0f, gate / (1.0f + expf(-kGeluSlope * (gate + cube))));
}

__device__ inline float with_epilogue(Epilogue epilogue, float value, float before) {
  if (epilogue == Epilogue::kAdd) return before + value;
  // An infinity becomes NaN here too.
  if (epilogue == Epilogue::kSwiglu) return fmaf(before, 0.0f, before / (1.0f + expf(-before))) * value;
  if (epilogue == Epilogue::kClampedSwiglu) return clamped_swiglu(before, value);
  if (epilogue == Epilogue::kGelu) return fmaf(value, 0.0f, 0.5f * value * (1.0f + erff(value * 0.70710678f)));
  if (epilogue == Epilogue::kGeglu) return tanh_gelu(before) * value;
  // Written without fmaxf: a NaN stays NaN, and an infinity becomes NaN.
  return epilogue == Epilogue::kRelu ? fmaf(value, 0.0f, 0.0f > value ? 0.0f : value) : value;
}

/// Stores an output element, of x·gate `gate`; columns from n on are padding and are not stored.
__device__ inline void store_output(const GemmArguments& t, const ProductRows& product, uint32_t row, uint32_t column,
                                    float value, float gate = 0.0f) {
  if (row >= product.rows || column >= product.n) return;
  float* y = product.y + size_t{row} * product.y_stride + column;
  if (product.bias != nullptr) value += product.bias[column];
  float before = 0.0f;
  if (t.gated) {
    before = gate;
    if (product.bias != nullptr) before += *bytes_from(product.bias + column, t.gate.bias);
  } else if (takes_before(t.epilogue)) {
    before = *y;
  }
  *y = with_epilogue(t.epilogue, value, before);
}

/// The same for 8 neighbours, `column` a multiple of 8.
__device__ inline void store_outputs(const GemmArguments& t, const ProductRows& product, uint32_t row, uint32_t column,
                                     const float (&values)[8]) {
  if (!t.y_vectors || column + 8 > product.n) {
    for (uint32_t i = 0; i < 8; ++i) store_output(t, product, row, column + i, values[i]);
    return;
  }
  if (row >= product.rows) return;
  auto* y = reinterpret_cast<float4*>(product.y + size_t{row} * product.y_stride + column);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float value[4];
    for (int i = 0; i < 4; ++i) {
      value[i] = values[4 * half + i];
      if (product.bias != nullptr) value[i] += product.bias[column + 4 * half + i];
    }
    const float4 before = takes_before(t.epilogue) ? y[half] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    y[half] = make_float4(with_epilogue(t.epilogue, value[0], before.x), with_epilogue(t.epilogue, value[1], before.y),
                          with_epilogue(t.epilogue, value[2], before.z), with_epilogue(t.epilogue, value[3], before.w));
  }
}

}  // namespace sida::cuda
