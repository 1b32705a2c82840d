#pragma once

#include "core/thread_pool.h"
#include "ops/cpu/kernels.h"

namespace sida {

/// Bytes that `rows` rows of `k` take in 8 bits before weights of `format`.
size_t quantized_bytes(size_t rows, size_t k, WeightFormat format);

/// Rows laid out in `memory`, of quantized_bytes().
QuantizedRows quantized_rows(std::byte* memory, size_t rows, size_t k, WeightFormat format);

/// `x` in 8 bits, rows shared among the pool's threads.
void quantize(ThreadPool& pool, const QuantizeTask& task, const QuantizedRows& out);

}  // namespace sida
