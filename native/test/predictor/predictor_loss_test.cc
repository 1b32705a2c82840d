#include "predictor/predictor_loss.h"

#include "support/predictor_reference.h"

namespace {

constexpr PredictorConfig kLossConfig = {.d_in = 1, .hidden = 1, .layers = 2, .experts = 7};
constexpr size_t kRows = 5;
constexpr size_t kListed = 4;

// A teacher's record of kRows tokens: distinct experts, descending logits.
struct Record {
  std::vector<uint16_t> experts;
  Doubles logits;
  std::vector<float> logits_f;

  Record() {
    const Doubles steps = random_doubles(kLossConfig.layers * kRows * kListed, 1, 3);
    for (size_t row = 0; row < kLossConfig.layers * kRows; ++row) {
      double at = 1;
      for (size_t i = 0; i < kListed; ++i) {
        experts.push_back(static_cast<uint16_t>((row * 3 + i * 2) % kLossConfig.experts));
        at -= std::abs(steps[row * kListed + i]);
        logits.push_back(static_cast<float>(at));
      }
    }
    logits_f = floats(logits);
  }
  TeacherLogits teacher() const { return {experts.data(), logits_f.data(), kRows, kListed}; }
};

// The loss as its definition reads: sums of distillation and of cross-entropy.
std::pair<double, double> reference_loss(const LossOptions& options, const Record& record, const Doubles& logits) {
  double distillation = 0;
  double cross_entropy = 0;
  const size_t top = std::min(options.top, kListed);
  for (size_t row = 0; row < kLossConfig.layers * kRows; ++row) {
    const Doubles all = softmax64(part_of(logits, row * kLossConfig.experts, kLossConfig.experts));
    Doubles taught;
    for (size_t i = 0; i < top; ++i) {
      taught.push_back(record.logits[row * kListed + i] * static_cast<double>(options.sharpness));
    }
    const Doubles p = softmax64(taught);
    for (size_t i = 0; i < top && options.distillation == DistillationLoss::kKl; ++i) {
      distillation += p[i] * std::log(p[i] / all[record.experts[row * kListed + i]]);
    }
    for (size_t i = 0; i < options.k; ++i) {
      cross_entropy -= std::log(all[record.experts[row * kListed + i]]) / static_cast<double>(options.k);
    }
  }
  return {distillation, cross_entropy};
}

TEST_CASE("predictor loss: value and gradient of every form agree with finite differences") {
  const Record record;
  const Doubles logits = random_doubles(kLossConfig.layers * kRows * kLossConfig.experts, 2, 4);
  for (const auto& [distillation, top, k] :
       grid(std::vector<DistillationLoss>{DistillationLoss::kKl, DistillationLoss::kNone}, Sizes{1, 3, 30},
            Sizes{1, 3})) {
    if (k > top) continue;
    CASE(top, k);
    const LossOptions options = {
        .top = top, .lambda = 0.25f, .sharpness = k == 1 ? 1.0f : 3.0f, .k = k, .distillation = distillation};
    std::vector<float> gradient(logits.size(), -1.0f);
    const LossSums sums =
        predictor_loss(kLossConfig, options, floats(logits).data(), kRows, record.teacher(), 0, 0.5f, gradient.data());
    const auto [expected, expected_ce] = reference_loss(options, record, logits);
    CHECK(sums.distillation == doctest::Approx(expected).epsilon(1e-5).scale(1));
    CHECK(sums.cross_entropy == doctest::Approx(expected_ce).epsilon(1e-5));
    const Doubles numeric = numeric_gradient(logits, [&](const Doubles& at) {
      const auto [d, ce] = reference_loss(options, record, at);
      return 0.5 * (d + 0.25 * ce);
    });
    CHECK(relative_error(gradient, numeric) < 1e-5);
  }
}

TEST_CASE("predictor loss: a part of the rows gives that part of the whole") {
  const Record record;
  const LossOptions options;
  const std::vector<float> logits = floats(random_doubles(kLossConfig.layers * kRows * kLossConfig.experts, 2, 4));
  const LossSums whole = predictor_loss(kLossConfig, options, logits.data(), kRows, record.teacher(), 0, 1, nullptr);
  LossSums parts;
  for (const auto& [first, rows] : {std::pair<size_t, size_t>{0, 2}, {2, 3}}) {
    std::vector<float> part;
    for (size_t l = 0; l < kLossConfig.layers; ++l) {
      const float* from = &logits[(l * kRows + first) * kLossConfig.experts];
      part.insert(part.end(), from, from + rows * kLossConfig.experts);
    }
    parts.add(predictor_loss(kLossConfig, options, part.data(), rows, record.teacher(), first, 1, nullptr));
  }
  CHECK(parts.distillation == doctest::Approx(whole.distillation));
  CHECK(parts.cross_entropy == doctest::Approx(whole.cross_entropy));
  for (size_t l = 0; l < kLossConfig.layers; ++l) CHECK(parts.layers[l].hits == whole.layers[l].hits);
}

TEST_CASE("predictor loss: counts hits by rank, of a router's first choice or several; lower indices lead equals") {
  constexpr PredictorConfig config = {.d_in = 1, .hidden = 1, .layers = 1, .experts = 4};
  const auto hits = [&](const LossOptions& options, const std::vector<float>& logits, std::vector<uint16_t> best) {
    const size_t rows = logits.size() / 4;
    const std::vector<float> teacher(best.size(), 1.0f);
    const LossSums sums = predictor_loss(config, options, logits.data(), rows,
                                         {best.data(), teacher.data(), rows, best.size() / rows}, 0, 1, nullptr);
    CHECK(sums.layers[0].tokens == rows);
    return sums.layers[0].hits;
  };
  const std::vector<float> logits = {
      9, 1, 1, 1,  // first
      9, 8, 1, 1,  // second
      9, 8, 7, 1,  // third
      9, 8, 7, 1,  // fourth
      5, 5, 5, 5,  // fourth by index
  };
  CHECK(hits({}, logits, {0, 1, 2, 3, 3}) == std::vector<uint64_t>{1, 2, 3});
  // The rows' choices are 0 and 1, and 3 and 2: of these four, 0 and 1 are among the best two.
  LossOptions several;
  several.choices = 2;
  several.ranks = {2, 4};
  CHECK(hits(several, {9, 8, 7, 1, 9, 8, 7, 1}, {0, 1, 2, 3, 2, 0}) == std::vector<uint64_t>{2, 4});
}

TEST_CASE("predictor loss: traces that do not fit are refused with the numbers") {
  Record record;
  const auto check = [&] { record.teacher().check(kLossConfig); };
  check();
  record.experts[9] = 7;
  thrown_by(check, "invalid_request");
  record.experts[9] = 6;
  record.logits_f[3] = NAN;
  thrown_by(check, "invalid_request");
}

}  // namespace
