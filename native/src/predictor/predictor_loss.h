#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "predictor/predictor_config.h"

namespace sida {

enum class DistillationLoss : uint8_t {
  kKl,    ///< Σ p · log(p / q)
  kNone,  ///< 0: the cross-entropy alone teaches
};

/// Truncated knowledge distillation plus λ · cross-entropy. p is the softmax of the teacher's best `top` logits times
/// `sharpness`; q the student's probability of the same experts, normalized over all, which also lowers the others.
struct LossOptions {
  size_t top = 30;
  float lambda = 0.005f;
  float sharpness = 1;  ///< above 1: sharpens the distribution of a teacher with flat logits
  size_t k = 1;         ///< cross-entropy on the teacher's best k experts, averaged
  size_t choices = 1;   ///< experts that the teacher's router chooses for a token: those of the greatest logits
  std::vector<size_t> ranks = {1, 2, 3};  ///< ranks at which hits are counted
  DistillationLoss distillation = DistillationLoss::kKl;
};

/// Router logits of the teacher, best expert first: (layers, rows, top) both.
struct TeacherLogits {
  const uint16_t* experts = nullptr;
  const float* logits = nullptr;
  size_t rows = 0;
  size_t top = 0;  ///< recorded logits; the loss uses as many as its options say

  /// Throws invalid_request where an expert is not one of the predictor's or a logit is not finite.
  void check(const PredictorConfig& config) const;
};

struct LayerHits {
  uint64_t tokens = 0;
  std::vector<uint64_t> hits;  ///< (ranks) choices of the teacher's router among the student's best `rank` experts
};

/// Sums over tokens and layers.
struct LossSums {
  double distillation = 0;
  double cross_entropy = 0;
  std::vector<LayerHits> layers;

  /// Adds another's sums. Both have the same number of layers, or one has none yet.
  void add(const LossSums& other);
};

/// The loss of logits (layers, rows, experts), whose rows are the teacher's from `first_row` on. Unless dlogits is
/// null, overwrites it (same shape) with `scale` times the gradient of the sum of distillation + λ · cross-entropy.
LossSums predictor_loss(const PredictorConfig& config, const LossOptions& options, const float* logits, size_t rows,
                        const TeacherLogits& teacher, size_t first_row, float scale, float* dlogits);

}  // namespace sida
