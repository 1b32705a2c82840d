#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/thread_pool.h"
#include "predictor/adamw.h"
#include "predictor/predictor_loss.h"
#include "predictor/predictor_network.h"

namespace sida {

struct TrainerOptions {
  AdamWOptions adamw;
  LossOptions loss;
  double clip_norm = 1;  ///< largest norm of a step's gradient; 0: no limit
  size_t threads = 1;
};

/// Results of a minibatch. Losses are means over tokens and layers.
struct TrainingReport {
  double loss = 0;  ///< distillation + λ · cross-entropy
  double distillation = 0;
  double cross_entropy = 0;
  double gradient_norm = 0;  ///< before clipping; 0 for an evaluation
  bool applied = false;      ///< false for an evaluation and where loss or gradient is not finite
  std::vector<LayerHits> layers;
};

/// Trains one predictor. Sequences are processed in chunks of a fixed size, whose gradients are summed in order, so a
/// run gives the same bits with any number of threads. Calls block; one caller at a time.
class PredictorTrainer {
 public:
  PredictorTrainer(PredictorWeights weights, const TrainerOptions& options);
  /// Resumes a stopped run.
  PredictorTrainer(PredictorWeights weights, AdamWState state, const TrainerOptions& options);
  ~PredictorTrainer();

  /// One optimizer step over a minibatch. `teacher` covers the batch's rows. A step without tokens, or whose
  /// loss or gradient is not finite, changes nothing. Throws invalid_request where the traces do not fit.
  TrainingReport step(const SequenceBatch& batch, const TeacherLogits& teacher, float learning_rate);

  /// Measures the same without learning.
  TrainingReport evaluate(const SequenceBatch& batch, const TeacherLogits& teacher);

  const PredictorWeights& weights() const { return weights_; }
  const AdamWState& state() const { return state_; }

 private:
  struct Chunk;

  TrainingReport run(const SequenceBatch& batch, const TeacherLogits& teacher, bool learn);
  void split(const SequenceBatch& batch, double scale);
  void run_chunk(const TeacherLogits& teacher, bool learn, PredictorActivations* activations, Chunk* chunk) const;
  /// Sums the chunks' gradients into the first one's; returns the norm.
  double sum_gradients();

  TrainerOptions options_;
  PredictorWeights weights_;
  AdamWState state_;
  PredictorNetwork network_;
  ThreadPool pool_;
  std::vector<Chunk> chunks_;
  size_t used_chunks_ = 0;
  std::vector<PredictorActivations> activations_;  ///< by thread
};

}  // namespace sida
