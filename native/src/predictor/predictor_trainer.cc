#include "predictor/predictor_trainer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "core/error.h"

namespace sida {
namespace {

constexpr size_t kStepSequences = 16;
// A chunk with at least this many tokens takes no further sequence.
constexpr size_t kStepTokens = 256;
// Weights that one task sums or updates.
constexpr size_t kBlock = 1 << 14;

size_t blocks_of(size_t count) { return (count + kBlock - 1) / kBlock; }

}  // namespace

// A range of sequences. Its results do not depend on the thread that computes them.
struct PredictorTrainer::Chunk {
  SequenceBatch batch;
  size_t first_row = 0;
  float scale = 0;
  LossSums sums;
  std::exception_ptr error;
  std::vector<float> logits;     // (layers, rows, experts)
  std::vector<float> dlogits;    // same shape
  std::vector<float> gradients;  // the weights' layout
};

PredictorTrainer::PredictorTrainer(PredictorWeights weights, const TrainerOptions& options)
    : PredictorTrainer(weights, AdamWState(weights.values.size()), options) {}

PredictorTrainer::PredictorTrainer(PredictorWeights weights, AdamWState state, const TrainerOptions& options)
    : options_(options),
      weights_(std::move(weights)),
      state_(std::move(state)),
      network_(weights_.layout.config(), NetworkUse::kTraining),
      pool_(std::max(options.threads, size_t{1})),
      activations_(pool_.threads()) {
  if (state_.mean.size() != weights_.values.size() || state_.square.size() != weights_.values.size()) {
    throw Error("invalid_request",
                "The optimizer's state is of another predictor: " + std::to_string(state_.mean.size()) +
                    " moments for " + std::to_string(weights_.values.size()) + " weights");
  }
  network_.load(weights_.values.data(), &pool_);
}

PredictorTrainer::~PredictorTrainer() = default;

TrainingReport PredictorTrainer::step(const SequenceBatch& batch, const TeacherLogits& teacher, float learning_rate) {
  TrainingReport report = run(batch, teacher, true);
  if (batch.rows() == 0) return report;
  report.gradient_norm = sum_gradients();
  report.applied = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  if (!report.applied) return report;
  const bool clip = options_.clip_norm > 0 && report.gradient_norm > options_.clip_norm;
  const float scale = clip ? static_cast<float>(options_.clip_norm / report.gradient_norm) : 1.0f;
  const AdamWStep adamw(options_.adamw, state_.steps, learning_rate);
  const size_t count = weights_.values.size();
  pool_.parallel_for(blocks_of(count), [&](size_t block, size_t) {
    const size_t begin = block * kBlock;
    adamw.update(std::min(kBlock, count - begin), chunks_[0].gradients.data() + begin, scale,
                 weights_.values.data() + begin, state_.mean.data() + begin, state_.square.data() + begin);
  });
  ++state_.steps;
  network_.load(weights_.values.data(), &pool_);
  return report;
}

TrainingReport PredictorTrainer::evaluate(const SequenceBatch& batch, const TeacherLogits& teacher) {
  return run(batch, teacher, false);
}

void PredictorTrainer::split(const SequenceBatch& batch, double scale) {
  const PredictorConfig& config = network_.config();
  used_chunks_ = 0;
  size_t row = 0;
  for (size_t first = 0; first < batch.lengths.size();) {
    size_t last = first;
    size_t rows = 0;
    for (; last < batch.lengths.size() && last - first < kStepSequences && rows < kStepTokens; ++last) {
      rows += batch.lengths[last];
    }
    if (chunks_.size() == used_chunks_) chunks_.emplace_back();
    Chunk& chunk = chunks_[used_chunks_++];
    chunk.batch.lengths = batch.lengths.subspan(first, last - first);
    chunk.batch.x = batch.x + row * config.d_in;
    chunk.batch.summaries = batch.summaries == nullptr ? nullptr : batch.summaries + first * config.d_in;
    chunk.first_row = row;
    chunk.scale = static_cast<float>(scale);
    chunk.error = nullptr;
    row += rows;
    first = last;
  }
}

void PredictorTrainer::run_chunk(const TeacherLogits& teacher, bool learn, PredictorActivations* activations,
                                 Chunk* chunk) const {
  const PredictorConfig& config = network_.config();
  const size_t rows = chunk->batch.rows();
  chunk->logits.resize(config.layers * rows * config.experts);
  network_.forward(chunk->batch, activations, chunk->logits.data());
  if (learn) chunk->dlogits.resize(chunk->logits.size());
  chunk->sums = predictor_loss(config, options_.loss, chunk->logits.data(), rows, teacher, chunk->first_row,
                               chunk->scale, learn ? chunk->dlogits.data() : nullptr);
  if (!learn) return;
  chunk->gradients.assign(weights_.values.size(), 0.0f);
  network_.backward(chunk->batch, activations, chunk->dlogits.data(), chunk->gradients.data());
}

TrainingReport PredictorTrainer::run(const SequenceBatch& batch, const TeacherLogits& teacher, bool learn) {
  const PredictorConfig& config = network_.config();
  TrainingReport report;
  const size_t rows = batch.rows();
  if (rows == 0) return report;
  if (teacher.rows != rows) {
    throw Error("invalid_request",
                "Traces of " + std::to_string(teacher.rows) + " tokens for a batch of " + std::to_string(rows),
                {{"expected", static_cast<double>(rows)}, {"found", static_cast<double>(teacher.rows)}});
  }
  teacher.check(config);
  const double scale = 1.0 / static_cast<double>(rows * config.layers);
  split(batch, scale);
  pool_.parallel_for(used_chunks_, [&](size_t task, size_t thread) {
    try {
      run_chunk(teacher, learn, &activations_[thread], &chunks_[task]);
    } catch (...) {
      chunks_[task].error = std::current_exception();
    }
  });
  LossSums sums;
  for (size_t i = 0; i < used_chunks_; ++i) {
    if (chunks_[i].error) std::rethrow_exception(std::exchange(chunks_[i].error, nullptr));
    sums.add(chunks_[i].sums);
  }
  report.distillation = sums.distillation * scale;
  report.cross_entropy = sums.cross_entropy * scale;
  report.loss = report.distillation + static_cast<double>(options_.loss.lambda) * report.cross_entropy;
  report.layers = std::move(sums.layers);
  return report;
}

double PredictorTrainer::sum_gradients() {
  const size_t count = weights_.values.size();
  std::vector<double> squares(blocks_of(count));
  pool_.parallel_for(squares.size(), [&](size_t block, size_t) {
    const size_t begin = block * kBlock;
    const size_t end = std::min(begin + kBlock, count);
    float* total = chunks_[0].gradients.data();
    for (size_t c = 1; c < used_chunks_; ++c) {
      const float* gradient = chunks_[c].gradients.data();
      for (size_t i = begin; i < end; ++i) total[i] += gradient[i];
    }
    double lanes[8] = {};
    for (size_t i = begin; i < end; ++i) lanes[i % 8] += static_cast<double>(total[i]) * total[i];
    for (const double lane : lanes) squares[block] += lane;
  });
  double sum = 0;
  for (const double square : squares) sum += square;
  return std::sqrt(sum);
}

}  // namespace sida
