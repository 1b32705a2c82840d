#include "predictor/predictor_trainer.h"

#include <cstring>
#include <limits>
#include <numeric>

#include "core/error.h"
#include "doctest/doctest.h"
#include "support/predictor_reference.h"

namespace sida {
namespace {

using namespace sida::testing;

constexpr PredictorConfig kConfig = {.d_in = 8, .hidden = 16, .layers = 2, .experts = 6};
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
    const std::vector<float> embeddings = floats(random_doubles(kWords * kConfig.d_in, 1, 77));
    std::vector<uint16_t> best[2];
    for (size_t s = 0; s < sequences; ++s) {
      lengths.push_back(static_cast<uint32_t>(1 + random() % 12));
      size_t before = 0;
      for (size_t t = 0; t < lengths.back(); ++t) {
        const size_t word = random() % kWords;
        const auto from = embeddings.begin() + static_cast<ptrdiff_t>(word * kConfig.d_in);
        x.insert(x.end(), from, from + kConfig.d_in);
        best[0].push_back(static_cast<uint16_t>(word % kConfig.experts));
        best[1].push_back(static_cast<uint16_t>((word + 3 * (before % 2)) % kConfig.experts));
        before = word;
      }
    }
    for (const auto& layer : best) {
      for (const uint16_t expert : layer) {
        for (size_t i = 0; i < kTop; ++i) {
          experts.push_back(static_cast<uint16_t>((expert + i) % kConfig.experts));
          logits.push_back(4.0f - 2.0f * static_cast<float>(i));
        }
      }
    }
  }
  SequenceBatch batch() const { return {x.data(), lengths}; }
  TeacherLogits teacher() const { return {experts.data(), logits.data(), x.size() / kConfig.d_in, kTop}; }
};

PredictorWeights fresh_weights(uint64_t seed = 5, const PredictorConfig& config = kConfig) {
  PredictorWeights weights(config);
  weights.initialize(seed);
  return weights;
}

bool same_bits(const PredictorTrainer& a, const PredictorTrainer& b) {
  const std::vector<float>& x = a.weights().values;
  const std::vector<float>& y = b.weights().values;
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

TEST_CASE("predictor trainer: the loss falls by 30 % in 30 steps; words and context are learnt in 300") {
  PredictorTrainer trainer(fresh_weights(), {});
  const Task held_out(999);
  const double before = trainer.evaluate(held_out.batch(), held_out.teacher()).loss;
  std::vector<double> losses;
  for (uint64_t step = 0; step < 300; ++step) {
    const Task task(step);
    const TrainingReport report = trainer.step(task.batch(), task.teacher(), 1e-2f);
    REQUIRE(report.applied);
    losses.push_back(report.loss);
    if (step == 29) CHECK(trainer.evaluate(held_out.batch(), held_out.teacher()).loss < 0.7 * before);
  }
  CHECK(losses[29] < 0.7 * losses[0]);
  const TrainingReport after = trainer.evaluate(held_out.batch(), held_out.teacher());
  CHECK(after.loss < 0.1);
  for (const LayerHits& layer : after.layers) {
    CHECK(layer.tokens == held_out.teacher().rows);
    CHECK(layer.hits[0] > layer.tokens * 95 / 100);
    CHECK(layer.hits[2] >= layer.hits[1]);
    CHECK(layer.hits[1] >= layer.hits[0]);
  }
}

TEST_CASE("predictor trainer: the cross-entropy alone teaches words and context") {
  LossOptions loss;
  loss.distillation = DistillationLoss::kNone;
  loss.lambda = 1;
  PredictorConfig softmax = kConfig;
  softmax.attention_weights = WeightFunction::kSoftmax;
  PredictorTrainer trainer(fresh_weights(5, softmax), {.loss = loss});
  for (uint64_t step = 0; step < 300; ++step) {
    const Task task(step);
    trainer.step(task.batch(), task.teacher(), 1e-2f);
  }
  const Task held_out(999);
  const TrainingReport after = trainer.evaluate(held_out.batch(), held_out.teacher());
  CHECK(after.distillation == 0);
  CHECK(after.loss == after.cross_entropy);
  for (const LayerHits& layer : after.layers) CHECK(layer.hits[0] > layer.tokens * 95 / 100);
}

TEST_CASE("predictor trainer: any number of threads gives the same bits") {
  PredictorConfig both_ways = kConfig;
  both_ways.bidirectional = true;
  PredictorConfig blocks = kConfig;
  blocks.blocks = 2;
  PredictorConfig variant = kConfig;
  variant.lstm_layers = 1;
  variant.attention_weights = WeightFunction::kSoftmax;
  for (const PredictorConfig& config : {kConfig, both_ways, blocks, variant}) {
    PredictorTrainer one(fresh_weights(5, config), {.threads = 1});
    PredictorTrainer three(fresh_weights(5, config), {.threads = 3});
    for (uint64_t step = 0; step < 5; ++step) {
      const Task task(step);
      const TrainingReport a = one.step(task.batch(), task.teacher(), 1e-3f);
      const TrainingReport b = three.step(task.batch(), task.teacher(), 1e-3f);
      CHECK(a.loss == b.loss);
      CHECK(a.gradient_norm == b.gradient_norm);
    }
    CHECK(same_bits(one, three));
  }
}

TEST_CASE("predictor trainer: a run resumed from its state has the bits of a run that never stopped") {
  PredictorTrainer whole(fresh_weights(), {});
  for (uint64_t step = 0; step < 4; ++step) whole.step(Task(step).batch(), Task(step).teacher(), 1e-3f);
  PredictorTrainer half(fresh_weights(), {});
  for (uint64_t step = 0; step < 2; ++step) half.step(Task(step).batch(), Task(step).teacher(), 1e-3f);
  PredictorTrainer rest(half.weights(), half.state(), {});
  for (uint64_t step = 2; step < 4; ++step) rest.step(Task(step).batch(), Task(step).teacher(), 1e-3f);
  CHECK(same_bits(whole, rest));
}

TEST_CASE("predictor trainer: one step is AdamW on the clipped mean gradient") {
  const Task task(1);
  const PredictorWeights start = fresh_weights();
  PredictorNetwork network(kConfig, NetworkUse::kTraining);
  network.load(start.values.data());
  PredictorActivations activations;
  const size_t rows = task.teacher().rows;
  std::vector<float> logits(kConfig.layers * rows * kConfig.experts), dlogits(logits.size());
  std::vector<float> gradient(start.values.size());
  network.forward(task.batch(), &activations, logits.data());
  predictor_loss(kConfig, {}, logits.data(), rows, task.teacher(), 0,
                 1.0f / static_cast<float>(kConfig.layers * rows), dlogits.data());
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
      .update(expected.size(), gradient.data(), 0.25f, expected.data(), state.mean.data(),
              state.square.data());
  CHECK(relative_error(trainer.weights().values.data(), Doubles(expected.begin(), expected.end()).data(),
                       expected.size()) < 1e-6);
}

TEST_CASE("predictor trainer: both directions and blocks learn from later words") {
  // Layer 1 follows the word after.
  PredictorConfig both_ways = kConfig;
  both_ways.bidirectional = true;
  PredictorConfig blocks = kConfig;
  blocks.blocks = 1;
  for (const PredictorConfig& config : {both_ways, blocks}) {
    const auto task = [&](uint64_t seed) {
      Task made(seed);
      const size_t rows = made.teacher().rows;
      size_t row = 0;
      for (const uint32_t length : made.lengths) {
        for (size_t t = 0; t < length; ++t, ++row) {
          const size_t after = t + 1 < length ? made.experts[(row + 1) * kTop] : 0;
          for (size_t i = 0; i < kTop; ++i) {
            made.experts[(rows + row) * kTop + i] = static_cast<uint16_t>((after + i) % config.experts);
          }
        }
      }
      return made;
    };
    PredictorTrainer trainer(fresh_weights(5, config), {});
    for (uint64_t step = 0; step < 300; ++step) {
      const Task made = task(step);
      trainer.step(made.batch(), made.teacher(), 1e-2f);
    }
    const Task held_out = task(999);
    const LayerHits hits = trainer.evaluate(held_out.batch(), held_out.teacher()).layers[1];
    CHECK(hits.hits[0] > hits.tokens * 95 / 100);
  }
}

TEST_CASE("predictor trainer: a step that is not finite changes nothing") {
  Task task(1);
  task.x[3] = std::numeric_limits<float>::quiet_NaN();
  PredictorTrainer trainer(fresh_weights(), {});
  CHECK_FALSE(trainer.step(task.batch(), task.teacher(), 1e-3f).applied);
  CHECK(same_bits(trainer, PredictorTrainer(fresh_weights(), {})));
  CHECK(trainer.state().steps == 0);
}

TEST_CASE("predictor trainer: empty sequences and empty batches are allowed") {
  Task task(1);
  PredictorTrainer plain(fresh_weights(), {});
  PredictorTrainer padded(fresh_weights(), {});
  plain.step(task.batch(), task.teacher(), 1e-3f);
  task.lengths.insert(task.lengths.end(), 20, 0);
  padded.step(task.batch(), task.teacher(), 1e-3f);
  CHECK(same_bits(plain, padded));
  CHECK_FALSE(plain.step({}, {}, 1e-3f).applied);
}

TEST_CASE("predictor trainer: traces of another number of tokens are refused") {
  const Task task(1);
  TeacherLogits teacher = task.teacher();
  --teacher.rows;
  PredictorTrainer trainer(fresh_weights(), {});
  CHECK_THROWS_AS(trainer.step(task.batch(), teacher, 1e-3f), Error);
}

}  // namespace
}  // namespace sida
