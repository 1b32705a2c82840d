// What the GEMMs do with a finished tile. See kernels_impl.h for `V`.

#pragma once

#include "ops/kernels.h"

namespace sida {
namespace {

/// Columns [16 · half, 16 · half + 16) of a panel's row to y, those below `columns`.
inline void store_columns(Epilogue epilogue, V value, float* y, size_t half, size_t columns) {
  const size_t begin = 16 * half;
  if (columns <= begin) return;
  y += begin;
  if (epilogue == Epilogue::kRelu) value = V::max(V::set(0.0f), value);
  if (columns >= begin + 16) {
    V::storeu(y, epilogue == Epilogue::kAdd ? V::add(V::loadu(y), value) : value);
    return;
  }
  alignas(64) float lane[16];
  V::store(lane, value);
  for (size_t c = 0; c < columns - begin; ++c) y[c] = epilogue == Epilogue::kAdd ? y[c] + lane[c] : lane[c];
}

/// Calls f<min(rows, kMost)>() and returns that number.
template <size_t kMost, class F>
size_t with_rows(size_t rows, const F& f) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return with_rows<kMost - 1>(rows, f);
  }
  f.template operator()<kMost>();
  return kMost;
}

}  // namespace
}  // namespace sida
