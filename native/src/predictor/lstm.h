#pragma once

#include <cstddef>

#include "predictor/matrix_product.h"
#include "predictor/time_major_rows.h"

namespace sida {

/// One LSTM layer of h units over inputs of width `input.k`. Products with the transposed weights are only needed for
/// training.
struct LstmLayer {
  size_t hidden = 0;
  PanelMatrix input;            ///< x · W_inputᵀ, (·, 4h)
  PanelMatrix recurrent;        ///< y · W_hiddenᵀ, (·, 4h)
  PanelMatrix input_back;       ///< dgates · W_input
  PanelMatrix hidden_back;      ///< dgates · W_hidden
  const float* bias = nullptr;  ///< (4h)
};

/// Floats from one row of gates to the next. The extra 16 keep rows out of each other's cache sets.
inline size_t lstm_gate_stride(size_t hidden) { return 4 * hidden + 16; }

/// Results of a forward pass that the backward pass needs. Rows are time-major.
struct LstmActivations {
  AlignedFloats gates;      ///< (rows, 4h) i, f, g, o after their activations; rows lstm_gate_stride(h) apart
  AlignedFloats cells;      ///< (rows, h)
  AlignedFloats cell_tanh;  ///< (rows, h)
  AlignedFloats outputs;    ///< (rows, h)
};

struct LstmGradients {
  float* input_weight;   ///< (4h, input width)
  float* hidden_weight;  ///< (4h, h)
  float* bias;           ///< (4h)
};

struct LstmScratch {
  AlignedFloats dgates;
  AlignedFloats previous;
  AlignedFloats carry_hidden;
  AlignedFloats carry_cell;
  ProductScratch product;
};

/// One step of `rows` sequences. On entry `gates` holds x · W_inputᵀ, on return the gates. y_before and c_before (rows,
/// h) are null at the beginning of the sequences. c may be c_before.
void lstm_step(const LstmLayer& layer, size_t rows, const float* y_before, const float* c_before, float* gates,
               float* c, float* c_tanh, float* y);

/// Overwrites the activations. x is (rows, input width).
void lstm_forward(const LstmLayer& layer, const TimeMajorRows& order, const float* x, LstmActivations* out);

/// Adds (+=) to the gradients; overwrites (=) dx (rows, input width). x is the forward pass's, dy (rows, h)
/// the gradient of its outputs.
void lstm_backward(const LstmLayer& layer, const TimeMajorRows& order, const float* x, const LstmActivations& forward,
                   const float* dy, const LstmGradients& gradients, float* dx, LstmScratch* scratch);

}  // namespace sida
