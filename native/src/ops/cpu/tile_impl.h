// What the tiles of all GEMMs share. See float_kernels_impl.h.

#pragma once

#include "ops/cpu/exp16_impl.h"
#include "ops/cpu/kernels.h"

namespace sida {
namespace {

// Prefetches into the L1 cache: the hardware prefetcher brings streams only to L2, and with many rows the core cannot
// hide that latency. Panels follow each other in memory, so the end of one panel prefetches the next one.
constexpr size_t kPrefetchBytes = 2048;

inline void prefetch_step(const std::byte* p) {
  __builtin_prefetch(p + kPrefetchBytes, 0, 3);
  __builtin_prefetch(p + kPrefetchBytes + 64, 0, 3);
}

/// The first `count` numbers of a vector, or all; the others are 0.
inline V load_some(const float* from, size_t count) {
  if (count >= 16) return V::loadu(from);
  alignas(64) float lane[16] = {};
  for (size_t i = 0; i < count; ++i) lane[i] = from[i];
  return V::load(lane);
}

inline void store_some(float* to, size_t count, V v) {
  if (count >= 16) return V::storeu(to, v);
  alignas(64) float lane[16];
  V::store(lane, v);
  for (size_t i = 0; i < count; ++i) to[i] = lane[i];
}

/// kRows rows of a stride, with one pointer for every three rows: the compiler would keep one for each and run out of
/// registers.
template <class T, size_t kRows>
class RowPointers {
 public:
  RowPointers(const T* first, size_t stride) : stride_(stride) {
    for (size_t i = 0; i < kPointers; ++i) {
      pointer_[i] = first + 3 * i * stride;
      __asm__("" : "+r"(pointer_[i]));
    }
  }
  const T* row(size_t r) const { return pointer_[r / 3] + r % 3 * stride_; }
  void advance(size_t count) {
    for (size_t i = 0; i < kPointers; ++i) pointer_[i] += count;
  }

 private:
  static constexpr size_t kPointers = (kRows + 2) / 3;
  const T* pointer_[kPointers];
  size_t stride_;
};

/// Adds a bias of 16 columns, null: none, to a product and applies the activation.
template <Epilogue kEpilogue>
[[gnu::always_inline]] inline V finished(V value, const float* bias) {
  if (bias != nullptr) value = V::add(value, V::load(bias));
  // 0 · value is 0 and changes no bit of a finite maximum, but makes NaN of an infinity.
  if constexpr (kEpilogue == Epilogue::kRelu) value = V::fma(value, V::set(0.0f), V::max(V::set(0.0f), value));
  return value;
}

/// Columns [16 · half, 16 · half + 16) of a panel's row to y, those below `columns`. `bias`: of the panel's columns, as
/// many as a panel has; null: none. Inlined into every unrolled row it would triple the compile time of the kernels.
[[gnu::noinline]] void store_columns(Epilogue epilogue, const float* bias, V value, float* y, size_t half,
                                     size_t columns) {
  const size_t begin = 16 * half;
  if (columns <= begin) return;
  y += begin;
  if (bias != nullptr) bias += begin;
  value =
      epilogue == Epilogue::kRelu ? finished<Epilogue::kRelu>(value, bias) : finished<Epilogue::kStore>(value, bias);
  if (columns >= begin + 16) {
    V::storeu(y, epilogue == Epilogue::kAdd ? V::add(V::loadu(y), value) : value);
    return;
  }
  alignas(64) float lane[16];
  V::store(lane, value);
  for (size_t c = 0; c < columns - begin; ++c) y[c] = epilogue == Epilogue::kAdd ? y[c] + lane[c] : lane[c];
}

template <Epilogue kEpilogue, class Value>
void store_whole_rows(const GemmTask& t, size_t rows, const Value& value, float* y) {
  for (size_t r = 0; r < rows; ++r, y += t.y_stride) {
#pragma GCC unroll 2
    for (size_t c = 0; c < 2; ++c) {
      const V of = finished<kEpilogue>(value(r, c), t.bias == nullptr ? nullptr : t.bias + 16 * c);
      V::storeu(y + 16 * c, kEpilogue == Epilogue::kAdd ? V::add(V::loadu(y + 16 * c), of) : of);
    }
  }
}

/// A block of rows of a panel to y: value(r, c) is row r's half c. Where a panel is whole, the epilogue is chosen once
/// for the block: chosen for each half it would take as long as the tiles of AMX compute.
template <class Value>
void store_block(const GemmTask& t, size_t rows, const Value& value, float* y, size_t columns) {
  if (columns < kPanelColumns) {
    for (size_t r = 0; r < rows; ++r, y += t.y_stride) {
      for (size_t c = 0; c < 2; ++c) store_columns(t.epilogue, t.bias, value(r, c), y, c, columns);
    }
  } else if (t.epilogue == Epilogue::kRelu) {
    store_whole_rows<Epilogue::kRelu>(t, rows, value, y);
  } else if (t.epilogue == Epilogue::kAdd) {
    store_whole_rows<Epilogue::kAdd>(t, rows, value, y);
  } else {
    store_whole_rows<Epilogue::kStore>(t, rows, value, y);
  }
}

/// Calls f<min(rows, kMax)>() and returns that number.
template <size_t kMax, class F>
size_t with_rows(size_t rows, const F& f) {
  if constexpr (kMax > 1) {
    if (rows < kMax) return with_rows<kMax - 1>(rows, f);
  }
  f.template operator()<kMax>();
  return kMax;
}

/// y (rows, columns) = activation of y, which holds x·gate, and `up` (rows, kPanelColumns).
inline void gated_tile(Epilogue epilogue, const float* up, size_t rows, size_t columns, float* y, size_t y_stride) {
  for (size_t r = 0; r < rows; ++r, up += kPanelColumns, y += y_stride) {
    for (size_t c = 0; c < columns; c += 16) {
      const auto product = [&](V gate) {
        const V by = V::load(up + c);
        if (epilogue == Epilogue::kClampedSwiglu) return clamped_swiglu16(gate, by);
        return V::mul(epilogue == Epilogue::kGeglu ? tanh_gelu16(gate) : silu16(gate), by);
      };
      if (columns - c >= 16) {
        V::storeu(y + c, product(V::loadu(y + c)));
      } else {
        on_lanes(y + c, columns - c, product);
      }
    }
  }
}

/// y (rows, columns) = gelu(y).
inline void gelu_tile(size_t rows, size_t columns, float* y, size_t y_stride) {
  for (size_t r = 0; r < rows; ++r, y += y_stride) {
    size_t c = 0;
    for (; c + 16 <= columns; c += 16) V::storeu(y + c, gelu16(V::loadu(y + c)));
    if (c < columns) on_lanes(y + c, columns - c, gelu16);
  }
}

/// Runs the blocks of panels [t.panel_begin, t.panel_end): run(task, row, rows, panel, y, columns), rows <= kMax,
/// stores a block by the task's epilogue to y. The bias of the task that it gets is that of the panel. A block that is
/// gated or goes through GELU is finished here, because the activation's registers would displace the block's.
template <size_t kMax, class Run>
void run_blocks(const GemmTask& t, const Run& run) {
  const size_t stride = panel_stride(t.k, t.format);
  const bool gated = takes_gate(t.epilogue);
  alignas(64) float up[kMax * kPanelColumns];
  alignas(64) float bias[kPanelColumns] = {};
  GemmTask task = t;
  const bool gelu = t.epilogue == Epilogue::kGelu;
  if (gated) task.y_stride = kPanelColumns;
  if (gated || gelu) task.epilogue = Epilogue::kStore;
  for (size_t p = t.panel_begin; p < t.panel_end; ++p) {
    const size_t column = p * kPanelColumns;
    const size_t columns = t.n - column < kPanelColumns ? t.n - column : kPanelColumns;
    if (t.bias != nullptr) {
      for (size_t c = 0; c < columns; ++c) bias[c] = t.bias[column + c];
      task.bias = bias;
    }
    for (size_t row = 0; row < t.rows; row += kMax) {
      float* y = t.y + row * t.y_stride + column;
      const size_t rows = t.rows - row < kMax ? t.rows - row : kMax;
      run(task, row, rows, t.panels + p * stride, gated ? up : y, gated ? kPanelColumns : columns);
      if (gated) gated_tile(t.epilogue, up, rows, columns, y, t.y_stride);
      if (gelu) gelu_tile(rows, columns, y, t.y_stride);
    }
  }
}

/// The same with blocks whose rows are known at compile time: run<kRows>(task, row, panel, y, columns).
template <size_t kMax, class Run>
void run_tiles(const GemmTask& t, const Run& run) {
  run_blocks<kMax>(
      t, [&](const GemmTask& task, size_t row, size_t rows, const std::byte* panel, float* y, size_t columns) {
        with_rows<kMax>(rows, [&]<size_t kRows>() { run.template operator()<kRows>(task, row, panel, y, columns); });
      });
}

}  // namespace
}  // namespace sida
