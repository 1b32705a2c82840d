#include "predictor/predictor_loss.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "predictor/softmax.h"

namespace sida {
namespace {

// Scratch of one token.
struct TokenLoss {
  std::vector<float> student;  // (experts) probabilities
  std::vector<float> target;   // (top) the teacher's

  TokenLoss(size_t experts, size_t top) : student(experts), target(top) {}
};

// Experts ranked ahead of `target`: those with greater logits, and those with equal logits and smaller index.
size_t rank_of(const float* logits, size_t experts, size_t target) {
  size_t rank = 0;
  for (size_t e = 0; e < experts; ++e) {
    rank += logits[e] > logits[target] || (logits[e] == logits[target] && e < target) ? 1 : 0;
  }
  return rank;
}

class TokenGradient {
 public:
  TokenGradient(const LossOptions& options, size_t experts, size_t top)
      : options_(options), experts_(experts), top_(top), token_(experts, top) {}

  // Adds one token's loss to `sums`; dlogits (experts) may be null.
  void run(const float* logits, const uint16_t* ids, const float* teacher, float scale, float* dlogits,
           LossSums* sums) {
    for (size_t i = 0; i < top_; ++i) token_.target[i] = teacher[i] * options_.sharpness;
    softmax(token_.target.data(), top_, token_.target.data());
    const double log_sum = softmax(logits, experts_, token_.student.data());
    if (dlogits != nullptr) std::fill_n(dlogits, experts_, 0.0f);
    if (options_.distillation == DistillationLoss::kKl) {
      sums->distillation += kl(logits, ids, log_sum, scale, dlogits);
    }
    sums->cross_entropy += cross_entropy(logits, ids, log_sum, scale * options_.lambda, dlogits);
  }

 private:
  double kl(const float* logits, const uint16_t* ids, double log_sum, float scale, float* dlogits) {
    double loss = 0;
    for (size_t i = 0; i < top_; ++i) {
      const double p = token_.target[i];
      if (p > 0) loss += p * (std::log(p) - (logits[ids[i]] - log_sum));
    }
    if (dlogits == nullptr) return loss;
    for (size_t i = 0; i < top_; ++i) dlogits[ids[i]] -= scale * token_.target[i];
    for (size_t e = 0; e < experts_; ++e) dlogits[e] += scale * token_.student[e];
    return loss;
  }

  double cross_entropy(const float* logits, const uint16_t* ids, double log_sum, float scale, float* dlogits) {
    const size_t k = std::clamp(options_.k, size_t{1}, top_);
    double loss = 0;
    for (size_t i = 0; i < k; ++i) loss += log_sum - logits[ids[i]];
    if (dlogits != nullptr) {
      for (size_t e = 0; e < experts_; ++e) dlogits[e] += scale * token_.student[e];
      for (size_t i = 0; i < k; ++i) dlogits[ids[i]] -= scale / static_cast<float>(k);
    }
    return loss / static_cast<double>(k);
  }

  const LossOptions& options_;
  size_t experts_;
  size_t top_;
  TokenLoss token_;
};

}  // namespace

void TeacherLogits::check(const PredictorConfig& config) const {
  if (top == 0) throw Error("invalid_request", "Expected the traces to record at least 1 expert a token");
  for (size_t i = 0; i < config.layers * rows * top; ++i) {
    if (experts[i] < config.experts && std::isfinite(logits[i])) continue;
    const size_t layer = i / (rows * top);
    throw Error("invalid_request",
                "Traces: expert " + std::to_string(experts[i]) + " with logit " + std::to_string(logits[i]) +
                    " in layer " + std::to_string(layer) + ": expected a finite logit and an expert below " +
                    std::to_string(config.experts),
                {{"layer", static_cast<double>(layer)},
                 {"expert", static_cast<double>(experts[i])},
                 {"experts", static_cast<double>(config.experts)}});
  }
}

void LossSums::add(const LossSums& other) {
  distillation += other.distillation;
  cross_entropy += other.cross_entropy;
  if (layers.empty()) layers.resize(other.layers.size());
  for (size_t l = 0; l < other.layers.size(); ++l) {
    layers[l].tokens += other.layers[l].tokens;
    layers[l].hits.resize(other.layers[l].hits.size());
    for (size_t i = 0; i < layers[l].hits.size(); ++i) layers[l].hits[i] += other.layers[l].hits[i];
  }
}

LossSums predictor_loss(const PredictorConfig& config, const LossOptions& options, const float* logits, size_t rows,
                        const TeacherLogits& teacher, size_t first_row, float scale, float* dlogits) {
  const size_t top = std::min({std::max(options.top, size_t{1}), teacher.top, config.experts});
  TokenGradient token(options, config.experts, top);
  LossSums sums;
  const size_t choices = std::min(std::max(options.choices, size_t{1}), teacher.top);
  sums.layers.assign(config.layers, {0, std::vector<uint64_t>(options.ranks.size())});
  for (size_t l = 0; l < config.layers; ++l) {
    for (size_t r = 0; r < rows; ++r) {
      const size_t row = l * rows + r;
      const float* z = logits + row * config.experts;
      const size_t record = (l * teacher.rows + first_row + r) * teacher.top;
      const uint16_t* ids = teacher.experts + record;
      token.run(z, ids, teacher.logits + record, scale, dlogits == nullptr ? nullptr : dlogits + row * config.experts,
                &sums);
      LayerHits& hits = sums.layers[l];
      ++hits.tokens;
      for (size_t c = 0; c < choices; ++c) {
        const size_t rank = rank_of(z, config.experts, ids[c]);
        for (size_t i = 0; i < options.ranks.size(); ++i) hits.hits[i] += rank < options.ranks[i] ? 1 : 0;
      }
    }
  }
  return sums;
}

}  // namespace sida
