#pragma once

#include <span>

#include "core/thread_pool.h"
#include "ops/cpu/quantized_rows.h"
#include "ops/panels.h"

namespace sida {

/// Most rows that are held in 8 bits at a time.
inline constexpr size_t kInt8Rows = 256;

/// Memory for activations in 8 bits: quantized_bytes() of min(rows, kInt8Rows) rows. Empty: activations stay
/// f32.
using Int8Scratch = std::span<std::byte>;

/// Whether a product with weights of `format` takes its activations in 8 bits.
bool in_int8(WeightFormat format, Int8Scratch scratch);

/// One of several products of the same x. `y_stride` in floats.
struct LinearOutput {
  PanelMatrix w;
  float* y;
  size_t y_stride;
};

/// Each y (rows, w.n) = epilogue(x (rows, w.k) · W). The pool's threads share the panels of all products. Where there
/// is scratch memory, quantized weights are multiplied with activations in 8 bits; neighbouring products of one format
/// share the quantized rows.
void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
            Epilogue epilogue, Int8Scratch int8 = {});
/// The same for one product.
void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue, Int8Scratch int8 = {});

}  // namespace sida
