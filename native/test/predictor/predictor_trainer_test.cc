#include "predictor/predictor_trainer.h"

#include "support/predictor_reference.h"

namespace {

constexpr PredictorConfig kTaskConfig = {.d_in = 8, .hidden = 16, .layers = 2, .experts = 6};
constexpr size_t kWords = 12;
constexpr size_t kTop = 3;

// A language of kWords words whose experts follow the word in layer 0, and the word and the one before it in
// layer 1.
struct Task {
  std::vector<uint32_t> lengths;
  std::vector<float> x;
  std::vector<uint16_t> experts;
  std::vector<float> logits;

  explicit Task(uint64_t seed, size_t sequences = 40) {
    std::mt19937_64 random(seed);
    const std::vector<float> embeddings = floats(random_doubles(kWords * kTaskConfig.d_in, 1, 77));
    std::vector<uint16_t> best[2];
    for (size_t s = 0; s < sequences; ++s) {
      lengths.push_back(static_cast<uint32_t>(1 + random() % 12));
      size_t before = 0;
      for (size_t t = 0; t < lengths.back(); ++t) {
        const size_t word = random() % kWords;
        const auto from = embeddings.begin() + static_cast<ptrdiff_t>(word * kTaskConfig.d_in);
        x.insert(x.end(), from, from + kTaskConfig.d_in);
        best[0].push_back(static_cast<uint16_t>(word % kTaskConfig.experts));
        best[1].push_back(static_cast<uint16_t>((word + 3 * (before % 2)) % kTaskConfig.experts));
        before = word;
      }
    }
    for (const auto& layer : best) {
      for (const uint16_t expert : layer) {
        for (size_t i = 0; i < kTop; ++i) {
          experts.push_back(static_cast<uint16_t>((expert + i) % kTaskConfig.experts));
          logits.push_back(4.0f - 2.0f * static_cast<float>(i));
        }
      }
    }
  }
  SequenceBatch batch() const { return {x.data(), lengths}; }
  TeacherLogits teacher() const { return {experts.data(), logits.data(), x.size() / kTaskConfig.d_in, kTop}; }
};

PredictorWeights fresh_weights(uint64_t seed = 5, const PredictorConfig& config = kTaskConfig) {
  PredictorWeights weights(config);
  weights.initialize(seed);
  return weights;
}

bool same_weights(const PredictorTrainer& a, const PredictorTrainer& b) {
  return same_bits(a.weights().values, b.weights().values);
}

Task usual_task(uint64_t seed) { return Task(seed); }

void train(PredictorTrainer* trainer, uint64_t first, uint64_t end, float rate, Task (*task)(uint64_t) = usual_task) {
  for (uint64_t step = first; step < end; ++step) {
    const Task made = task(step);
    REQUIRE(trainer->step(made.batch(), made.teacher(), rate).applied);
  }
}

TrainingReport evaluated(PredictorTrainer& trainer, const Task& task = Task(999)) {
  return trainer.evaluate(task.batch(), task.teacher());
}

TEST_CASE("predictor trainer: the loss falls by 30 % in 30 steps; words and context are learnt in 300") {
  PredictorTrainer trainer(fresh_weights(), {});
  const double before = evaluated(trainer).loss, first = evaluated(trainer, Task(0)).loss;
  train(&trainer, 0, 29, 1e-2f);
  const Task next(29);
  CHECK(trainer.step(next.batch(), next.teacher(), 1e-2f).loss < 0.7 * first);
  CHECK(evaluated(trainer).loss < 0.7 * before);
  train(&trainer, 30, 300, 1e-2f);
  const TrainingReport after = evaluated(trainer);
  CHECK(after.loss < 0.1);
  for (const LayerHits& layer : after.layers) {
    CHECK(layer.tokens == Task(999).teacher().rows);
    CHECK(layer.hits[0] > layer.tokens * 95 / 100);
    CHECK(std::ranges::is_sorted(layer.hits));
  }
}

TEST_CASE("predictor trainer: the cross-entropy alone teaches words and context") {
  LossOptions loss;
  loss.distillation = DistillationLoss::kNone;
  loss.lambda = 1;
  PredictorConfig softmax = kTaskConfig;
  softmax.attention_weights = WeightFunction::kSoftmax;
  PredictorTrainer trainer(fresh_weights(5, softmax), {.loss = loss});
  train(&trainer, 0, 300, 1e-2f);
  const TrainingReport after = evaluated(trainer);
  CHECK(after.distillation == 0);
  CHECK(after.loss == after.cross_entropy);
  for (const LayerHits& layer : after.layers) CHECK(layer.hits[0] > layer.tokens * 95 / 100);
}

TEST_CASE("predictor trainer: any number of threads gives the same bits") {
  PredictorConfig both_ways = kTaskConfig;
  both_ways.bidirectional = true;
  PredictorConfig blocks = kTaskConfig;
  blocks.blocks = 2;
  PredictorConfig variant = kTaskConfig;
  variant.lstm_layers = 1;
  variant.attention_weights = WeightFunction::kSoftmax;
  for (const PredictorConfig& config : {kTaskConfig, both_ways, blocks, variant}) {
    PredictorTrainer one(fresh_weights(5, config), {.threads = 1});
    PredictorTrainer three(fresh_weights(5, config), {.threads = 3});
    for (uint64_t step = 0; step < 5; ++step) {
      const Task task(step);
      const TrainingReport a = one.step(task.batch(), task.teacher(), 1e-3f);
      const TrainingReport b = three.step(task.batch(), task.teacher(), 1e-3f);
      CHECK(a.loss == b.loss);
      CHECK(a.gradient_norm == b.gradient_norm);
    }
    CHECK(same_weights(one, three));
  }
}

TEST_CASE("predictor trainer: a run resumed from its state has the bits of a run that never stopped") {
  PredictorTrainer whole(fresh_weights(), {}), half(fresh_weights(), {});
  train(&whole, 0, 4, 1e-3f);
  train(&half, 0, 2, 1e-3f);
  PredictorTrainer rest(half.weights(), half.state(), {});
  train(&rest, 2, 4, 1e-3f);
  CHECK(same_weights(whole, rest));
}

TEST_CASE("predictor trainer: one step is AdamW on the clipped mean gradient") {
  const Task task(1);
  const PredictorWeights start = fresh_weights();
  PredictorNetwork network(kTaskConfig, NetworkUse::kTraining);
  network.load(start.values.data());
  PredictorActivations activations;
  const size_t rows = task.teacher().rows;
  std::vector<float> logits(kTaskConfig.layers * rows * kTaskConfig.experts), dlogits(logits.size());
  std::vector<float> gradient(start.values.size());
  network.forward(task.batch(), &activations, logits.data());
  predictor_loss(kTaskConfig, {}, logits.data(), rows, task.teacher(), 0,
                 1.0f / static_cast<float>(kTaskConfig.layers * rows), dlogits.data());
  network.backward(task.batch(), &activations, dlogits.data(), gradient.data());
  const double norm = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));

  // A large epsilon keeps the step in proportion to the gradient.
  TrainerOptions options;
  options.adamw.epsilon = 1;
  options.clip_norm = norm / 4;
  PredictorTrainer trainer(start, options);
  const TrainingReport report = trainer.step(task.batch(), task.teacher(), 0.1f);
  CHECK(report.gradient_norm == doctest::Approx(norm).epsilon(1e-5));
  std::vector<float> expected = start.values;
  AdamWState state(expected.size());
  AdamWStep(options.adamw, 0, 0.1f)
      .update(expected.size(), gradient.data(), 0.25f, expected.data(), state.mean.data(), state.square.data());
  CHECK(relative_error(trainer.weights().values, expected) < 1e-6);
}

TEST_CASE("predictor trainer: both directions and blocks learn from later words") {
  // Layer 1 follows the word after.
  const auto task = [](uint64_t seed) {
    Task made(seed);
    const size_t rows = made.teacher().rows;
    size_t row = 0;
    for (const uint32_t length : made.lengths) {
      for (size_t t = 0; t < length; ++t, ++row) {
        const size_t after = t + 1 < length ? made.experts[(row + 1) * kTop] : 0;
        for (size_t i = 0; i < kTop; ++i) {
          made.experts[(rows + row) * kTop + i] = static_cast<uint16_t>((after + i) % kTaskConfig.experts);
        }
      }
    }
    return made;
  };
  for (const bool blocks : kBoth) {
    PredictorConfig config = kTaskConfig;
    config.bidirectional = !blocks;
    config.blocks = blocks ? 1 : 0;
    PredictorTrainer trainer(fresh_weights(5, config), {});
    train(&trainer, 0, 300, 1e-2f, task);
    const LayerHits hits = evaluated(trainer, task(999)).layers[1];
    CHECK(hits.hits[0] > hits.tokens * 95 / 100);
  }
}

TEST_CASE("predictor trainer: a step that is not finite changes nothing") {
  Task task(1);
  task.x[3] = std::numeric_limits<float>::quiet_NaN();
  PredictorTrainer trainer(fresh_weights(), {});
  CHECK_FALSE(trainer.step(task.batch(), task.teacher(), 1e-3f).applied);
  CHECK(same_weights(trainer, PredictorTrainer(fresh_weights(), {})));
  CHECK(trainer.state().steps == 0);
}

TEST_CASE("predictor trainer: empty sequences and batches are allowed; traces of other tokens are refused") {
  Task task(1);
  TeacherLogits fewer = task.teacher();
  --fewer.rows;
  PredictorTrainer plain(fresh_weights(), {}), padded(fresh_weights(), {});
  CHECK_THROWS_AS(plain.step(task.batch(), fewer, 1e-3f), Error);
  plain.step(task.batch(), task.teacher(), 1e-3f);
  task.lengths.insert(task.lengths.end(), 20, 0);
  padded.step(task.batch(), task.teacher(), 1e-3f);
  CHECK(same_weights(plain, padded));
  CHECK_FALSE(plain.step({}, {}, 1e-3f).applied);
}

}  // namespace
