#include "predictor/lstm.h"

#include <algorithm>
#include <cstring>

#include "predictor/gate_functions.h"

namespace sida {
namespace {

// c_before may be c: each element is read before it is written.
void cell_forward(size_t h, const float* bias, const float* c_before, float* __restrict gates, float* c,
                  float* __restrict c_tanh, float* __restrict y) {
  float* i = gates;
  float* f = gates + h;
  float* g = gates + 2 * h;
  float* o = gates + 3 * h;
  for (size_t j = 0; j < 2 * h; ++j) gates[j] = gate_sigmoid(gates[j] + bias[j]);
  for (size_t j = 0; j < h; ++j) g[j] = gate_tanh(g[j] + bias[2 * h + j]);
  for (size_t j = 0; j < h; ++j) o[j] = gate_sigmoid(o[j] + bias[3 * h + j]);
  if (c_before != nullptr) {
    for (size_t j = 0; j < h; ++j) c[j] = f[j] * c_before[j] + i[j] * g[j];
  } else {
    for (size_t j = 0; j < h; ++j) c[j] = i[j] * g[j];
  }
  for (size_t j = 0; j < h; ++j) c_tanh[j] = gate_tanh(c[j]);
  for (size_t j = 0; j < h; ++j) y[j] = o[j] * c_tanh[j];
}

// dgates = gradients before the gates' functions; carry_cell: in the gradient of c, out that of c_before.
void cell_backward(size_t h, const float* gates, const float* c_before, const float* c_tanh, const float* dy,
                   const float* carry_hidden, float* __restrict carry_cell, float* __restrict dgates) {
  for (size_t j = 0; j < h; ++j) {
    const float i = gates[j];
    const float f = gates[h + j];
    const float g = gates[2 * h + j];
    const float o = gates[3 * h + j];
    const float before = c_before != nullptr ? c_before[j] : 0.0f;
    const float d = dy[j] + carry_hidden[j];
    const float dc = carry_cell[j] + d * o * (1.0f - c_tanh[j] * c_tanh[j]);
    dgates[j] = dc * g * (i * (1.0f - i));
    dgates[h + j] = dc * before * (f * (1.0f - f));
    dgates[2 * h + j] = dc * i * (1.0f - g * g);
    dgates[3 * h + j] = d * c_tanh[j] * (o * (1.0f - o));
    carry_cell[j] = dc * f;
  }
}

// ----------------------------------------------------------------------------------------------------------

// previous (rows, h) = the output of each row's step before; zero at the first step.
void collect_previous(const TimeMajorRows& order, size_t h, const float* outputs, float* previous) {
  std::fill_n(previous, order.step_rows(0) * h, 0.0f);
  for (size_t t = 1; t < order.steps(); ++t) {
    std::memcpy(previous + order.step_begin(t) * h, outputs + order.step_begin(t - 1) * h,
                order.step_rows(t) * h * sizeof(float));
  }
}

}  // namespace

void lstm_step(const LstmLayer& layer, size_t rows, const float* y_before, const float* c_before,
               float* gates, float* c, float* c_tanh, float* y) {
  const size_t h = layer.hidden;
  const size_t stride = lstm_gate_stride(h);
  if (y_before != nullptr) multiply(y_before, h, rows, layer.recurrent, gates, stride, Epilogue::kAdd);
  for (size_t r = 0; r < rows; ++r) {
    cell_forward(h, layer.bias, c_before != nullptr ? c_before + r * h : nullptr, gates + r * stride,
                 c + r * h, c_tanh + r * h, y + r * h);
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
    lstm_step(layer, order.step_rows(t), t == 0 ? nullptr : outputs + before * h,
              t == 0 ? nullptr : cells + before * h, gates + row * stride, cells + row * h,
              cell_tanh + row * h, outputs + row * h);
  }
}

void lstm_backward(const LstmLayer& layer, const TimeMajorRows& order, const float* x,
                   const LstmActivations& forward, const float* dy, const LstmGradients& gradients, float* dx,
                   LstmScratch* scratch) {
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
  for (size_t t = order.steps(); t-- > 0;) {
    const size_t begin = order.step_begin(t);
    for (size_t s = 0; s < order.step_rows(t); ++s) {
      const size_t row = begin + s;
      const float* c_before = t == 0 ? nullptr : forward.cells.data() + (order.step_begin(t - 1) + s) * h;
      cell_backward(h, forward.gates.data() + row * stride, c_before, forward.cell_tanh.data() + row * h,
                    dy + row * h, carry_hidden + s * h, carry_cell + s * h, dgates + row * stride);
    }
    if (t == 0) break;
    multiply(dgates + begin * stride, stride, order.step_rows(t), layer.hidden_back, carry_hidden, h,
             Epilogue::kStore);
  }
  float* previous = grow(&scratch->previous, rows * h);
  collect_previous(order, h, forward.outputs.data(), previous);
  const size_t width = layer.input.k;
  add_weight_gradients(dgates, stride, rows, 4 * h,
                       {{x, width, width, gradients.input_weight}, {previous, h, h, gradients.hidden_weight}},
                       &scratch->product);
  add_rows(dgates, stride, rows, 4 * h, gradients.bias);
  multiply(dgates, stride, rows, layer.input_back, dx, width, Epilogue::kStore);
}

}  // namespace sida
