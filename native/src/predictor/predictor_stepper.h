#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "predictor/predictor_network.h"

namespace sida {

/// A predictor's state of one sequence between steps.
struct PredictorState {
  size_t length = 0;                                 ///< steps taken
  std::array<AlignedFloats, kMaxLstmLayers> hidden;  ///< (h) of each LSTM layer
  std::array<AlignedFloats, kMaxLstmLayers> cells;   ///< (h)
  AlignedFloats outputs;                             ///< (length, h) of the last LSTM layer
  AlignedFloats panels;                              ///< the outputs transposed, as keys
  std::vector<HeadPages> pages;                      ///< of each residual block
  AlignedFloats summary;                             ///< (h) product with W; empty for none

  /// Bytes held.
  size_t bytes() const;
};

/// Predicts token by token with a causal network; the logits are those of a forward pass over the whole
/// sequence, bit for bit. The network must outlive it. One caller at a time.
class PredictorStepper {
 public:
  /// Throws invalid_request where the network is not causal.
  explicit PredictorStepper(const PredictorNetwork& network);

  /// A sequence from its beginning. `summary_product` (h) may be null.
  void begin(PredictorState* state, const float* summary_product) const;

  /// Adds one token to each state. `products` (states, h) are those of the inputs with the compressing weights and are
  /// overwritten. Overwrites head_rows (states, layers · experts), unless null, with the logits. No state may be given
  /// twice.
  void step(std::span<PredictorState* const> states, float* products, float* head_rows);

 private:
  /// products (states, h) become compressed rows, then features_.
  /// `named`: whether the features of the tokens are computed, for the heads.
  void run_recurrent(std::span<PredictorState* const> states, float* products, bool named);
  void run_blocks(std::span<PredictorState* const> states, float* products);
  void run_lstm(size_t layer, std::span<PredictorState* const> states, const float* x, float* y);

  const PredictorNetwork* network_;
  AlignedFloats lstm_output_;
  AlignedFloats gates_;
  AlignedFloats hidden_;
  AlignedFloats cells_;
  AlignedFloats cell_tanh_;
  AlignedFloats weights_;
  AlignedFloats attended_;
  AlignedFloats residual_;
  AlignedFloats features_;
  std::vector<BlockActivations> blocks_;
  BlockScratch block_scratch_;
  std::vector<HeadPages*> pages_;
};

}  // namespace sida
