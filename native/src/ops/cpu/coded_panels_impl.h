// Decodes bf16c weights to bf16, so that the bf16 kernels multiply them: 32 inputs at a time in the L1 cache where a
// panel is read once, else the whole panel. See float_kernels_impl.h.

#pragma once

#include "ops/cpu/decoded_panel.h"
#include "ops/cpu/tile_impl.h"

namespace sida {
namespace {

/// Steps of a bf16 panel for kEscapeInputs.
constexpr size_t kDecodedSteps = kEscapeInputs / 2;

/// Goes through a panel, 32 inputs at a time. No bytes of a panel make it read or write elsewhere.
class CodedSteps {
 public:
  CodedSteps(const std::byte* panel, size_t k)
      : bases_{I::load(panel), I::load(panel + kHalf)},
        next_(panel + kPanelStepBytes),
        starts_(reinterpret_cast<const uint16_t*>(panel + starts_offset(k))),
        escapes_(reinterpret_cast<const uint32_t*>(panel + escapes_offset(k))),
        most_(most_escapes(k)),
        rest_(decoded_inputs(k)) {}

  /// Writes the next inputs, in whole groups of eight, as steps of a bf16 panel.
  void next(std::byte* to) {
    const size_t inputs = rest_ < kEscapeInputs ? rest_ : kEscapeInputs;
    for (size_t i = 0; i < inputs; i += kCodedInputs) decode(to + i / 2 * kPanelStepBytes);
    rest_ -= inputs;
    const size_t end = starts_[1] < most_ ? starts_[1] : most_;
    for (size_t i = *starts_; i < end; ++i) put(escapes_[i], inputs, reinterpret_cast<uint16_t*>(to));
    ++starts_;
  }

 private:
  static constexpr size_t kHalf = kPanelStepBytes / 2;

  [[gnu::always_inline]] void decode(std::byte* to) {
    for (size_t at = 0; at < kCodedBytes; at += kPanelStepBytes) prefetch_step(next_ + at);
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      const I codes = I::load(next_ + 2 * kPanelStepBytes + half * kHalf);
#pragma GCC unroll 2
      for (size_t plane = 0; plane < 2; ++plane) {
        I first, second;
        I::bf16_pairs(I::load(next_ + plane * kPanelStepBytes + half * kHalf), I::bits<4>(codes, 4 * plane),
                      bases_[half], first, second);
        I::store(to + 2 * plane * kPanelStepBytes + half * kHalf, first);
        I::store(to + (2 * plane + 1) * kPanelStepBytes + half * kHalf, second);
      }
    }
    next_ += kCodedBytes;
  }

  static void put(uint32_t escape, size_t inputs, uint16_t* numbers) {
    const size_t input = (escape >> 8) / kPanelColumns % kEscapeInputs, column = (escape >> 8) % kPanelColumns;
    if (input >= inputs) return;
    uint16_t& number = numbers[input / 2 * 2 * kPanelColumns + column * 2 + input % 2];
    number = static_cast<uint16_t>((number & 0x807fu) | (escape & 0xffu) << 7);
  }

  I bases_[2];
  const std::byte* next_;
  const uint16_t* starts_;
  const uint32_t* escapes_;
  size_t most_;
  size_t rest_;
};

/// The next kDecodedSteps steps of a panel of bf16c.
class DecodedSteps {
 public:
  DecodedSteps(const std::byte* panel, size_t k) : steps_(panel, k) {}
  const std::byte* next() {
    steps_.next(decoded_);
    return decoded_;
  }

 private:
  CodedSteps steps_;
  alignas(64) std::byte decoded_[kDecodedSteps * kPanelStepBytes];
};

/// The next kDecodedSteps steps of a panel of bf16, which needs no decoding.
class PlainSteps {
 public:
  PlainSteps(const std::byte* panel, size_t) : panel_(panel) {}
  const std::byte* next() {
    const std::byte* steps = panel_;
    panel_ += kDecodedSteps * kPanelStepBytes;
    return steps;
  }

 private:
  const std::byte* panel_;
};

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
    CodedSteps steps(t.panels + p * stride, t.k);
    for (size_t k = 0; k < t.k; k += kEscapeInputs) steps.next(decoded + k / 2 * kPanelStepBytes);
    task.n = t.n - column < kPanelColumns ? t.n - column : kPanelColumns;
    task.y = t.y + column;
    if (t.bias != nullptr) task.bias = t.bias + column;
    run(task);
  }
}

}  // namespace
}  // namespace sida
