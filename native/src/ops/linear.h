#pragma once

#include "core/thread_pool.h"
#include "ops/panels.h"

namespace sida {

/// y (rows, w.n) = epilogue(x (rows, w.k) · W), panels shared among the pool's threads. Strides in floats.
void linear(ThreadPool& pool, const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y,
            size_t y_stride, Epilogue epilogue);

}  // namespace sida
