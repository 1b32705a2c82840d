#include "predictor/lstm_cell.h"

#include <cstring>

#include "ops/cpu/kernels.h"
#include "predictor/gate_functions.h"

namespace sida {
namespace {

// The same source is compiled for each instruction set. None fuses a multiplication with an addition
// (-ffp-contract=off), so the vector width does not change the results.

[[gnu::always_inline]] inline void forward_body(size_t h, const float* __restrict bias, const float* c_before,
                                                float* __restrict gates, float* c, float* __restrict c_tanh,
                                                float* __restrict y) {
  for (size_t j = 0; j < 2 * h; ++j) gates[j] = gate_sigmoid(gates[j] + bias[j]);
  for (size_t j = 2 * h; j < 3 * h; ++j) gates[j] = gate_tanh(gates[j] + bias[j]);
  for (size_t j = 3 * h; j < 4 * h; ++j) gates[j] = gate_sigmoid(gates[j] + bias[j]);
  const float* i = gates;
  const float* f = gates + h;
  const float* g = gates + 2 * h;
  const float* o = gates + 3 * h;
  for (size_t j = 0; j < h; ++j) c[j] = f[j] * c_before[j] + i[j] * g[j];
  for (size_t j = 0; j < h; ++j) c_tanh[j] = gate_tanh(c[j]);
  for (size_t j = 0; j < h; ++j) y[j] = o[j] * c_tanh[j];
}

[[gnu::always_inline]] inline void backward_body(size_t h, const float* __restrict gates,
                                                 const float* __restrict c_before, const float* __restrict c_tanh,
                                                 const float* __restrict dy, const float* __restrict carry_hidden,
                                                 float* __restrict carry_cell, float* __restrict dgates) {
  for (size_t j = 0; j < h; ++j) {
    const float i = gates[j];
    const float f = gates[h + j];
    const float g = gates[2 * h + j];
    const float o = gates[3 * h + j];
    const float d = dy[j] + carry_hidden[j];
    const float dc = carry_cell[j] + d * o * (1.0f - c_tanh[j] * c_tanh[j]);
    dgates[j] = dc * g * (i * (1.0f - i));
    dgates[h + j] = dc * c_before[j] * (f * (1.0f - f));
    dgates[2 * h + j] = dc * i * (1.0f - g * g);
    dgates[3 * h + j] = d * c_tanh[j] * (o * (1.0f - o));
    carry_cell[j] = dc * f;
  }
}

// ----------------------------------------------------------------------------------------------------------

// Instantiates each function for one instruction set.
#define SIDA_LSTM_CELL(name, attributes)                                                                          \
  attributes void forward_##name(size_t h, const float* bias, const float* c_before, float* gates, float* c,      \
                                 float* c_tanh, float* y) {                                                       \
    forward_body(h, bias, c_before, gates, c, c_tanh, y);                                                         \
  }                                                                                                               \
  attributes void backward_##name(size_t h, const float* gates, const float* c_before, const float* c_tanh,       \
                                  const float* dy, const float* carry_hidden, float* carry_cell, float* dgates) { \
    backward_body(h, gates, c_before, c_tanh, dy, carry_hidden, carry_cell, dgates);                              \
  }                                                                                                               \
  constexpr LstmCell kCell_##name = {forward_##name, backward_##name};

SIDA_LSTM_CELL(plain, )
#if defined(__x86_64__)
SIDA_LSTM_CELL(avx2, [[gnu::target("avx2")]])
SIDA_LSTM_CELL(avx512, [[gnu::target("avx512f")]])
#endif
#undef SIDA_LSTM_CELL

}  // namespace

const LstmCell& lstm_cell_named(const char* isa) {
#if defined(__x86_64__)
  if (std::strncmp(isa, "avx512", 6) == 0) return kCell_avx512;
  if (std::strcmp(isa, "avx2") == 0) return kCell_avx2;
#endif
  (void)isa;
  return kCell_plain;
}

const LstmCell& lstm_cell() { return lstm_cell_named(cpu_kernels().isa); }

}  // namespace sida
