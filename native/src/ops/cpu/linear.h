#pragma once

#include <span>

#include "core/thread_pool.h"
#include "ops/cpu/rounded_rows.h"
#include "spec/activation_format.h"
#include "weights/panels.h"

namespace sida {

/// Most rounded rows that are held at a time.
inline constexpr size_t kRoundedRows = 256;

/// What activations are rounded to, and memory for them: rounded_bytes() of min(rows, kRoundedRows) rows.
struct RoundedScratch {
  ActivationFormat activations = ActivationFormat::kF32;
  std::span<std::byte> memory;
};

/// Whether a product with weights of `format` takes rounded activations.
bool takes_rounded(WeightFormat format, RoundedScratch scratch);

/// One of several products of the same x. `y_stride` in floats.
struct LinearOutput {
  PanelMatrix w;
  float* y;
  size_t y_stride;
};

/// Each y (rows, w.n) = epilogue(x (rows, w.k) · W). The pool's threads share the panels of all products. Neighbouring
/// products whose weights take rounded activations and have one format share the rounded rows.
void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, std::span<const LinearOutput> outputs,
            Epilogue epilogue, RoundedScratch rounded = {});
/// The same for one product.
void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue, RoundedScratch rounded = {});

}  // namespace sida
