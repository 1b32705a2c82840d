#include "predictor/recurrent_layer.h"

namespace sida {
namespace {

size_t floats_of(std::initializer_list<const AlignedFloats*> buffers) {
  size_t floats = 0;
  for (const AlignedFloats* buffer : buffers) floats += buffer->capacity();
  return floats;
}

}  // namespace

size_t RecurrentActivations::bytes() const {
  size_t floats = floats_of({&inputs[0], &inputs[1]});
  for (const LstmActivations& act : lstm) {
    floats += floats_of({&act.gates, &act.cells, &act.cell_tanh, &act.outputs});
  }
  return floats * sizeof(float);
}

size_t RecurrentScratch::bytes() const {
  return sizeof(float) * floats_of({&outputs, &inputs, &lstm.dgates, &lstm.previous, &lstm.carry_hidden,
                                    &lstm.carry_cell, &lstm.product.transposed, &lstm.product.panels});
}

void recurrent_forward(const RecurrentLayer& layer, const RecurrentOrders& orders, const float* x,
                       RecurrentActivations* act, float* y) {
  for (size_t d = 0; d < layer.count; ++d) {
    const LstmLayer& lstm = layer.directions[d];
    const size_t width = lstm.input.k;
    float* inputs = grow(&act->inputs[d], orders[d].rows() * width);
    orders[d].gather(x, width, width, inputs);
    lstm_forward(lstm, orders[d], inputs, &act->lstm[d]);
    orders[d].scatter(act->lstm[d].outputs.data(), lstm.hidden, y + d * lstm.hidden, layer.width());
  }
}

void recurrent_backward(const RecurrentLayer& layer, const RecurrentOrders& orders, const RecurrentActivations& act,
                        const float* dy, const RecurrentGradients& gradients, float* dx, RecurrentScratch* scratch) {
  const size_t rows = orders[0].rows();
  const size_t units = layer.directions[0].hidden;
  const size_t width = layer.directions[0].input.k;
  // Gathered before dx is written, because dx may be dy.
  float* outputs = grow(&scratch->outputs, layer.count * rows * units);
  for (size_t d = 0; d < layer.count; ++d) {
    orders[d].gather(dy + d * units, layer.width(), units, outputs + d * rows * units);
  }
  float* inputs = grow(&scratch->inputs, rows * width);
  for (size_t d = 0; d < layer.count; ++d) {
    lstm_backward(layer.directions[d], orders[d], act.inputs[d].data(), act.lstm[d], outputs + d * rows * units,
                  gradients[d], inputs, &scratch->lstm);
    d == 0 ? orders[d].scatter(inputs, width, dx, width) : orders[d].scatter_add(inputs, width, dx, width);
  }
}

}  // namespace sida
