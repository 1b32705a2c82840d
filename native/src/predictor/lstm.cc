#include "predictor/lstm.h"

#include <algorithm>
#include <cstring>

#include "predictor/lstm_cell.h"

namespace sida {
namespace {

// previous (rows, h) = the values of each sequence at the previous step; zero at the first step.
void collect_previous(const TimeMajorRows& order, size_t h, const float* values, float* previous) {
  std::fill_n(previous, order.step_rows(0) * h, 0.0f);
  for (size_t t = 1; t < order.steps(); ++t) {
    std::memcpy(previous + order.step_begin(t) * h, values + order.step_begin(t - 1) * h,
                order.step_rows(t) * h * sizeof(float));
  }
}

}  // namespace

void lstm_step(const LstmLayer& layer, size_t rows, const float* y_before, const float* c_before, float* gates,
               float* c, float* c_tanh, float* y) {
  const size_t h = layer.hidden;
  const size_t stride = lstm_gate_stride(h);
  if (y_before != nullptr) multiply(y_before, h, rows, layer.recurrent, gates, stride, Epilogue::kAdd);
  if (c_before == nullptr) {
    std::fill_n(c, rows * h, 0.0f);
    c_before = c;
  }
  const auto forward = lstm_cell().forward;
  for (size_t r = 0; r < rows; ++r) {
    forward(h, layer.bias, c_before + r * h, gates + r * stride, c + r * h, c_tanh + r * h, y + r * h);
  }
}

void lstm_forward(const LstmLayer& layer, const TimeMajorRows& order, const float* x, LstmActivations* out) {
  const size_t h = layer.hidden;
  const size_t rows = order.rows();
  const size_t stride = lstm_gate_stride(h);
  float* gates = grow(&out->gates, rows * stride);
  float* cells = grow(&out->cells, rows * h);
  float* cell_tanh = grow(&out->cell_tanh, rows * h);
  float* outputs = grow(&out->outputs, rows * h);
  multiply(x, layer.input.k, rows, layer.input, gates, stride, Epilogue::kStore);
  for (size_t t = 0; t < order.steps(); ++t) {
    const size_t row = order.step_begin(t);
    const size_t before = t == 0 ? 0 : order.step_begin(t - 1);
    lstm_step(layer, order.step_rows(t), t == 0 ? nullptr : outputs + before * h, t == 0 ? nullptr : cells + before * h,
              gates + row * stride, cells + row * h, cell_tanh + row * h, outputs + row * h);
  }
}

void lstm_backward(const LstmLayer& layer, const TimeMajorRows& order, const float* x, const LstmActivations& forward,
                   const float* dy, const LstmGradients& gradients, float* dx, LstmScratch* scratch) {
  const size_t h = layer.hidden;
  const size_t rows = order.rows();
  if (rows == 0) return;
  const size_t stride = lstm_gate_stride(h);
  const size_t sequences = order.step_rows(0);
  float* dgates = grow(&scratch->dgates, rows * stride);
  float* carry_hidden = grow(&scratch->carry_hidden, sequences * h);
  float* carry_cell = grow(&scratch->carry_cell, sequences * h);
  std::fill_n(carry_hidden, sequences * h, 0.0f);
  std::fill_n(carry_cell, sequences * h, 0.0f);
  float* previous = grow(&scratch->previous, rows * h);
  collect_previous(order, h, forward.cells.data(), previous);
  const auto cell_backward = lstm_cell().backward;
  for (size_t t = order.steps(); t-- > 0;) {
    const size_t begin = order.step_begin(t);
    for (size_t s = 0; s < order.step_rows(t); ++s) {
      const size_t row = begin + s;
      cell_backward(h, forward.gates.data() + row * stride, previous + row * h, forward.cell_tanh.data() + row * h,
                    dy + row * h, carry_hidden + s * h, carry_cell + s * h, dgates + row * stride);
    }
    if (t == 0) break;
    multiply(dgates + begin * stride, stride, order.step_rows(t), layer.hidden_back, carry_hidden, h, Epilogue::kStore);
  }
  collect_previous(order, h, forward.outputs.data(), previous);
  const size_t width = layer.input.k;
  add_weight_gradients(dgates, stride, rows, 4 * h,
                       {{x, width, width, gradients.input_weight}, {previous, h, h, gradients.hidden_weight}},
                       &scratch->product);
  add_rows(dgates, stride, rows, 4 * h, gradients.bias);
  multiply(dgates, stride, rows, layer.input_back, dx, width, Epilogue::kStore);
}

}  // namespace sida
