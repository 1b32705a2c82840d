#pragma once

#include <cstddef>

namespace sida {

/// The pointwise part of an LSTM step of one sequence with h units. Gates are i, f, g, o, each (h).
struct LstmCell {
  /// gates (4h): on entry the sums of both products, on return σ, σ, tanh and σ of these sums plus the bias. Overwrites
  /// c, c_tanh and y (h). c may be c_before; no other two overlap.
  void (*forward)(size_t h, const float* bias, const float* c_before, float* gates, float* c, float* c_tanh, float* y);

  /// Overwrites dgates (4h), the gradient of the sums before the gates' activations, and carry_cell (h): on entry the
  /// gradient of c from later steps, on return that of c_before. dy and carry_hidden (h) are the gradients of y from
  /// the next layer and from later steps.
  void (*backward)(size_t h, const float* gates, const float* c_before, const float* c_tanh, const float* dy,
                   const float* carry_hidden, float* carry_cell, float* dgates);
};

/// The cell for an instruction set that cpu_kernels_named() has. All give the same bits.
const LstmCell& lstm_cell_named(const char* isa);
/// The cell for the instruction set of cpu_kernels().
const LstmCell& lstm_cell();

}  // namespace sida
