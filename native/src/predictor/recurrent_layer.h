#pragma once

#include <array>
#include <cstddef>

#include "predictor/lstm.h"
#include "predictor/time_major_rows.h"

namespace sida {

inline constexpr size_t kMaxDirections = 2;

/// A recurrent layer of a predictor over rows of width h: one LSTM of h units, or two of h / 2 units. The second of two
/// reads each sequence from its end, and their outputs are concatenated.
struct RecurrentLayer {
  size_t count = 1;
  std::array<LstmLayer, kMaxDirections> directions;

  /// h
  size_t width() const { return count * directions[0].hidden; }
};

/// The order of the rows in each direction.
using RecurrentOrders = std::array<TimeMajorRows, kMaxDirections>;

struct RecurrentActivations {
  std::array<AlignedFloats, kMaxDirections> inputs;  ///< (rows, input width), time-major
  std::array<LstmActivations, kMaxDirections> lstm;

  size_t bytes() const;
};

struct RecurrentScratch {
  AlignedFloats outputs;  ///< (rows, units) gradients of the outputs, time-major
  AlignedFloats inputs;   ///< (rows, input width)
  LstmScratch lstm;

  size_t bytes() const;
};

using RecurrentGradients = std::array<LstmGradients, kMaxDirections>;

/// Overwrites y (rows, h) and the activations. x is (rows, input width). Both are sequence-major.
void recurrent_forward(const RecurrentLayer& layer, const RecurrentOrders& orders, const float* x,
                       RecurrentActivations* act, float* y);

/// Adds (+=) to the gradients; overwrites (=) dx (rows, input width), which may be dy (rows, h).
void recurrent_backward(const RecurrentLayer& layer, const RecurrentOrders& orders, const RecurrentActivations& act,
                        const float* dy, const RecurrentGradients& gradients, float* dx, RecurrentScratch* scratch);

}  // namespace sida
