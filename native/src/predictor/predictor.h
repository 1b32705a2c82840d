#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/thread_pool.h"
#include "predictor/device_network.h"
#include "predictor/expert_ranking.h"
#include "predictor/predictor_network.h"
#include "predictor/predictor_stepper.h"
#include "predictor/token_embedding.h"
#include "predictor/token_input.h"
#include "predictor/token_products.h"

namespace sida {

/// The result of a prediction: the k most likely experts of each MoE layer and token, best first, with two softmaxes of
/// the logits over all experts of the layer, (layers, tokens, k) each. A layer with fewer than k experts has kNoExpert
/// behind them.
struct ExpertTable {
  size_t k = 0;
  uint16_t* experts = nullptr;
  float* alpha = nullptr;   ///< softmax of the logits times the layer's alpha sharpness
  float* chance = nullptr;  ///< softmax of the logits times its chance sharpness, times the choices; may be null
  float* logits = nullptr;  ///< (layers, tokens, experts); may be null
};

/// Factors of the logits, (layers) each; empty: all 1.
struct PredictorSharpness {
  std::span<const float> alpha;
  std::span<const float> chance;
  /// Experts that a router chooses for a token. A chance is the softmax times this, at most 1.
  size_t choices = 1;
};

/// A trained predictor whose inputs are token ids. It keeps the products of the embeddings of all tokens that it has
/// seen with the compressing weights. One caller at a time; calls block.
class Predictor {
 public:
  /// `layer_experts`: those that each layer of the model has, the first of the predictor's; empty: all.
  /// Throws checkpoint_invalid where the embedding's width differs from the predictor's input, a sharpness is not above
  /// 0, or the layers have not one sharpness each. Compare `shape` with the model's: other sizes are cut.
  /// `device`: runs predict(), but for sequences of more than its rows, which the CPU runs, as it runs step(); null:
  /// the CPU runs all.
  Predictor(const PredictorWeights& weights, std::shared_ptr<const TokenEmbedding> embedding, size_t threads,
            const PredictorSharpness& sharpness = {}, std::span<const uint16_t> layer_experts = {},
            std::unique_ptr<DeviceNetwork> device = nullptr);
  ~Predictor();
  Predictor(const Predictor&) = delete;
  Predictor& operator=(const Predictor&) = delete;

  const PredictorConfig& config() const { return network_.config(); }
  /// Bytes held, scratch space and live sequences included, without the embedding.
  size_t bytes() const;

  /// Overwrites the table. False where a logit is not finite; the table's contents are then undefined. The bits of a
  /// sequence depend neither on its neighbours nor on the number of threads. Throws io_error where the embedding of a
  /// token cannot be read, as begin() and step() do; all stays then as it was.
  bool predict(const TokenInput& input, const ExpertTable& table);

  // Prediction token by token, for causal predictors. The caller chooses the ids. All throw invalid_request for another
  // kind of predictor, for unknown ids and for an id given twice.

  /// Begins sequences. Context tokens and offsets (ids + 1) of each: the tokens of its summary, or, for a predictor
  /// without summaries, its first tokens; both may then be empty.
  void begin(std::span<const int32_t> ids, std::span<const int32_t> context_tokens,
             std::span<const int32_t> context_offsets);
  /// Begins sequences, each as a copy of the one in `from` (ids).
  void fork(std::span<const int32_t> from, std::span<const int32_t> ids);
  /// Adds one token to each sequence. False as in predict(); the sequences can then not be used any more.
  bool step(std::span<const int32_t> ids, std::span<const int32_t> tokens, const ExpertTable& table);
  /// Unknown ids are ignored.
  void end(std::span<const int32_t> ids);

 private:
  struct Chunk;

  void add_products(std::span<const int32_t> tokens);
  void add_summary_products(std::span<const int32_t> tokens);
  void mean_summary_product(std::span<const int32_t> context, float* out) const;
  void split(const TokenInput& input);
  bool run_chunk(const TokenInput& input, const ExpertTable& table, const Chunk& chunk,
                 PredictorActivations* act) const;
  /// Ranks logits (rows, layers · experts) into the table's tokens from `first` on.
  bool rank(const float* head_rows, size_t rows, const ExpertTable& table, size_t tokens, size_t first) const;

  std::shared_ptr<const TokenEmbedding> embedding_;
  std::vector<ExpertSharpness> sharpness_;  ///< (layers)
  std::vector<size_t> layer_experts_;       ///< (layers)
  float choices_;
  PredictorNetwork network_;
  std::unique_ptr<DeviceNetwork> device_;
  TokenProducts products_;
  TokenProducts summary_products_;  ///< empty without a summary
  ThreadPool pool_;
  std::vector<PredictorActivations> activations_;  ///< by thread
  std::vector<Chunk> chunks_;

  std::unique_ptr<PredictorStepper> stepper_;  ///< null where the predictor is not causal
  std::unordered_map<int32_t, PredictorState> states_;
  AlignedFloats step_products_;
  AlignedFloats step_logits_;
};

}  // namespace sida
