#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "spec/epilogue.h"
#include "spec/kv_page.h"
#include "spec/spec.h"
#include "weights/panel_layout.h"

namespace sida {

/// One GEMM over panels [panel_begin, panel_end): y (rows, n) from x (rows, k). All strides in floats.
struct GemmTask {
  const float* x;
  size_t x_stride;
  size_t rows;
  const std::byte* panels;
  WeightFormat format;
  size_t k;
  size_t n;
  size_t panel_begin;
  size_t panel_end;
  float* y;
  size_t y_stride;
  Epilogue epilogue;
  const float* bias = nullptr;  ///< (n), added to a product before the epilogue; null: none
};

/// Rows of activations as products with one type of weights take them.
///
/// For quantized weights in 8 bits, with the scales and sums that turn products with them back into floats. A row's
/// scale is max |x| / 127; 0 where max |x| is below 1e-36, NaN where the row holds a NaN or an infinity.
/// For bf16 weights in bf16, rounded to nearest even.
struct RoundedRows {
  uint8_t* codes;  ///< (rows, stride bytes): x / scale, for int8 weights plus what the kernel set adds; or bf16
  size_t stride;
  float* scales;  ///< (rows); not of bf16
  /// (rows, groups), of grouped types: sums of the codes of scaled_inputs(), times what type and kernel set need
  int32_t* sums;
  size_t groups;

  RoundedRows from(size_t row) const {
    return {codes + row * stride, stride, scales + row, sums + row * groups, groups};
  }
};

/// Rows (rows, k) to be rounded for weights of `format`.
struct RoundTask {
  const float* x;
  size_t x_stride;
  size_t rows;
  size_t k;
  WeightFormat format;
};

/// Longest k whose integer sums cannot overflow.
inline constexpr size_t kMaxInt8Inputs = 65536;

/// Rows of attention whose scores lie in memory at a time.
inline constexpr size_t kScoreRows = 16;

/// Attention of query rows over the keys of one key head of one sequence. The rows are those of one query head, or the
/// query heads at one position that share the key head. Row r sees the last `window` of keys [0, key_count +
/// r·causal_step).
struct AttentionTask {
  const float* q;  ///< (rows, head_dim), row stride q_stride
  size_t q_stride;
  size_t rows;
  size_t head_dim;
  size_t head_dim_padded;               ///< head_dim rounded up to 16: row length of a value page
  const std::byte* const* key_pages;    ///< each [head_dim][16]; null where the window has passed
  const std::byte* const* value_pages;  ///< each [16][head_dim_padded]
  size_t key_count;                     ///< keys that row 0 sees
  size_t causal_step;                   ///< 1: each further row sees one key more; 0: all rows see key_count
  float scale = 1;                      ///< of the scores, before the bias
  const float* bias;                    ///< bias of (row 0, key 0); row r, key j at bias[j - r]; null for none
  float* out;                           ///< (rows, head_dim), row stride out_stride; may be q
  size_t out_stride;
  float* scratch;            ///< min(rows, kScoreRows) × score_stride floats
  size_t score_stride;       ///< keys of the last row rounded up to 16
  size_t window = SIZE_MAX;  ///< keys that a row sees at most
  /// Row r's sink is at sinks[r·sink_step]: a score that takes part in the softmax and has no value; null for none.
  const float* sinks = nullptr;
  size_t sink_step = 0;
  KvFormat format = KvFormat::kF32;  ///< of the pages
};

/// Latent attention of query rows over the cached rows of one sequence. Row r sees keys [0, key_count + r·causal_step).
/// Its output is the weighted sum of the first `value_width` columns of what it sees. All rows have stride `stride`, a
/// multiple of 16; what it adds to their columns is 0.
struct LatentAttentionTask {
  const float* q;  ///< (rows, stride)
  size_t rows;
  size_t value_width;
  size_t stride;
  const std::byte* const* pages;  ///< each [16][stride]
  size_t key_count;
  size_t causal_step;
  float scale;
  float* out;      ///< (rows, stride)
  float* scratch;  ///< 4 × score_stride floats
  size_t score_stride;
  KvFormat format = KvFormat::kF32;  ///< of the pages
};

/// A causal convolution of columns [begin, end) of the rows of one sequence, in place, and SiLU.
struct ConvolutionTask {
  float* x;  ///< (rows, stride)
  size_t stride;
  size_t rows;
  const float* weight;  ///< (stride, taps)
  size_t taps;          ///< at most DeltaSpec::kMostTaps
  float* kept;          ///< (taps - 1, stride): the inputs before row 0, at the end those before the next row
  bool first;           ///< `kept` holds anything; the inputs before row 0 are 0
  size_t begin, end;
};

/// The delta rule of one value head over the rows of one sequence. Rows of keys and queries are `key_stride` apart.
struct DeltaRuleTask {
  const float* queries;  ///< (rows, key_dim)
  const float* keys;     ///< (rows, key_dim)
  size_t key_stride;
  size_t rows, key_dim, value_dim;
  float* values;  ///< (rows, value_dim), `value_stride` apart; become answers
  size_t value_stride;
  const float* betas;   ///< (rows), `heads` apart
  const float* decays;  ///< (rows), `heads` apart
  size_t heads;
  float* state;         ///< (key_dim, state_stride)
  size_t state_stride;  ///< value_dim rounded up to 16; the columns between are 0
  bool first;           ///< `state` holds anything; it begins with zeros
};

/// The kernels of one instruction set that take rows as floats. Every set performs the same floating-point operations
/// in the same order on each output element, so all sets, and all batch shapes, agree bit for bit.
struct FloatKernels {
  void (*gemm)(const GemmTask&);
  void (*attention)(const AttentionTask&);
  void (*latent_attention)(const LatentAttentionTask&);
  /// y (rows, n) = x / sqrt(mean(x²) + epsilon) · weight, null: 1; y may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y);
  /// y (rows, n) = (x - mean(x)) / sqrt(variance(x) + epsilon) · weight + bias; y may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon, size_t rows, size_t n,
                     float* y);
  /// Probabilities (n) of one row's logits to `out`, which may be `x`.
  void (*softmax)(const float* x, size_t n, float* out);
  /// y += a·x over n.
  void (*axpy)(float a, const float* x, size_t n, float* y);
  /// x (n) times a.
  void (*scale)(float a, float* x, size_t n);
  /// x (n) = 1 / (1 + exp(-x)); NaN where x is not finite.
  void (*sigmoid)(float* x, size_t n);
  /// x (n) clamped to ±limit; NaN where x is not finite.
  void (*clip)(float* x, size_t n, float limit);
  /// x (n) = limit · tanh(x / limit); NaN where x is not finite.
  void (*soft_cap)(float* x, size_t n, float limit);
  /// Turns the first 2 · half columns of each row of x (rows, stride): columns j and half + j by one angle.
  void (*rotate)(float* x, size_t rows, size_t stride, size_t half, const float* cosines, const float* sines);
  /// The same for columns 2j and 2j + 1.
  void (*rotate_adjacent)(float* x, size_t rows, size_t stride, size_t half, const float* cosines, const float* sines);
  /// out (n) = portable_exp(x), each x at most 0. `out` may be `x`.
  void (*exp_nonpositive)(const double* x, size_t n, double* out);
  void (*convolve)(const ConvolutionTask&);
  /// x (rows, n) · length / sqrt(sum of squares + kUnitEpsilon).
  void (*unit_rows)(float* x, size_t rows, size_t n, float length);
  void (*delta_rule)(const DeltaRuleTask&);
  /// x (n) times the sigmoid, or SiLU, of `logits`.
  void (*gate_sigmoid)(const float* logits, float* x, size_t n);
  void (*gate_silu)(const float* logits, float* x, size_t n);
};

/// The kernels of one instruction set that take rounded rows; round_rows() prepares the rows for the same set's GEMM.
struct RoundedKernels {
  void (*round_rows)(const RoundTask&, const RoundedRows& out);
  /// The GEMM with rounded x; `x` and `x_stride` of the task are not read. Quantized weights: the sums of products are
  /// exact integers, of the inputs that share a scale, and are scaled once each. bf16: see bf16_gemm_impl.h.
  void (*gemm_rounded)(const GemmTask&, const RoundedRows& x);
};

/// A kernel set. VNNI and AMX change the rounded kernels alone and share the float kernels of AVX-512.
struct CpuKernels : FloatKernels, RoundedKernels {
  const char* isa;
};

/// Names of the kernel sets, the widest first.
inline constexpr std::array<const char*, 5> kKernelSets{"avx512amx", "avx512vnni", "avx512", "avx2", "scalar"};

/// Kernels for this machine: the widest set it supports, or the one named by SIDA_ISA.
const CpuKernels& cpu_kernels();
/// Kernels of one named set; null where this machine or build lacks it.
const CpuKernels* cpu_kernels_named(const char* isa);

}  // namespace sida
