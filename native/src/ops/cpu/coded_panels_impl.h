// Products with bf16c weights: each panel becomes one of bf16 in the cache, and the product is that of bf16. See
// float_kernels_impl.h.

#pragma once

#include <cstring>

#include "ops/cpu/decoded_panel.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

/// Gives the escapes of a decoded panel their exponents. No bytes of a panel make it write elsewhere.
inline void put_escapes(const std::byte* panel, size_t k, std::byte* decoded) {
  const auto* starts = reinterpret_cast<const uint16_t*>(panel + starts_offset(k));
  const auto* escapes = reinterpret_cast<const uint32_t*>(panel + escapes_offset(k));
  size_t count = starts[escape_starts(k)];
  if (count > most_escapes(k)) count = most_escapes(k);
  auto* numbers = reinterpret_cast<uint16_t*>(decoded);
  for (size_t i = 0; i < count; ++i) {
    const size_t input = (escapes[i] >> 8) / kPanelColumns, column = (escapes[i] >> 8) % kPanelColumns;
    if (input >= k) return;
    uint16_t& number = numbers[input / 2 * 2 * kPanelColumns + column * 2 + input % 2];
    number = static_cast<uint16_t>((number & 0x807fu) | (escapes[i] & 0xffu) << 7);
  }
}

inline void decode_panel(const std::byte* panel, size_t k, std::byte* decoded) {
  constexpr size_t kHalf = kPanelStepBytes / 2;
  const I bases[2] = {I::load(panel), I::load(panel + kHalf)};
  const std::byte* p = panel + kPanelStepBytes;
  std::byte* to = decoded;
  for (size_t input = 0; input < k; input += kCodedInputs, p += kCodedBytes) {
    for (size_t at = 0; at < kCodedBytes; at += kPanelStepBytes) prefetch_step(p + at);
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      const I codes = I::load(p + 2 * kPanelStepBytes + half * kHalf);
#pragma GCC unroll 2
      for (size_t plane = 0; plane < 2; ++plane) {
        I first, second;
        I::bf16_pairs(I::load(p + plane * kPanelStepBytes + half * kHalf), I::bits<4>(codes, 4 * plane), bases[half],
                      first, second);
        I::store(to + 2 * plane * kPanelStepBytes + half * kHalf, first);
        I::store(to + (2 * plane + 1) * kPanelStepBytes + half * kHalf, second);
      }
    }
    to += 4 * kPanelStepBytes;
  }
  put_escapes(panel, k, decoded);
}

/// run(task) for each panel of a task, as a task of bf16 weights.
template <class Run>
void decoded_panels(const GemmTask& t, const Run& run) {
  const size_t stride = panel_stride(t.k, t.format);
  std::byte* decoded = decoded_panel(panel_stride(decoded_inputs(t.k), kBf16Format));
  GemmTask task = t;
  task.panels = decoded;
  task.format = kBf16Format;
  task.panel_begin = 0;
  task.panel_end = 1;
  for (size_t p = t.panel_begin; p < t.panel_end; ++p) {
    const size_t column = p * kPanelColumns;
    decode_panel(t.panels + p * stride, t.k, decoded);
    task.n = t.n - column < kPanelColumns ? t.n - column : kPanelColumns;
    task.y = t.y + column;
    if (t.bias != nullptr) task.bias = t.bias + column;
    run(task);
  }
}

}  // namespace
}  // namespace sida
