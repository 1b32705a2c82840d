#pragma once

#include <span>

#include "core/thread_pool.h"
#include "ops/cpu/kernels.h"
#include "spec/activation_format.h"

namespace sida {

/// Bytes that `rows` rows of `k` take, rounded for weights of `format`.
size_t rounded_bytes(size_t rows, size_t k, WeightFormat format);
/// The most for weights of any format with such activations.
size_t rounded_bytes(size_t rows, size_t k, ActivationFormat activations);

/// Rows laid out in `memory`. Throws Error("internal") where that is smaller than rounded_bytes().
RoundedRows rounded_rows(std::span<std::byte> memory, size_t rows, size_t k, WeightFormat format);

/// Rounds the rows, shared among the pool's threads.
void round_rows(ThreadPool& pool, const RoundTask& task, const RoundedRows& out);

}  // namespace sida
