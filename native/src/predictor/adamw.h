#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sida {

struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0.01f;  ///< decoupled: weights shrink by learning rate × this before each step
};

/// The optimizer state that AdamW keeps for the weights.
struct AdamWState {
  explicit AdamWState(size_t count) : mean(count), square(count) {}

  uint64_t steps = 0;
  std::vector<float> mean;    ///< first moments
  std::vector<float> square;  ///< second moments
};

/// One AdamW step (Loshchilov & Hutter) over any range of weights: the elements are independent.
class AdamWStep {
 public:
  /// The step that follows `steps` finished ones.
  AdamWStep(const AdamWOptions& options, uint64_t steps, float learning_rate);

  /// Updates weights, mean and square in place; the gradient counts `gradient_scale` times.
  void update(size_t count, const float* gradient, float gradient_scale, float* weights, float* mean,
              float* square) const;

 private:
  AdamWOptions options_;
  float shrink_;
  float rate_;          ///< learning rate divided by the first moment's bias correction
  float square_scale_;  ///< turns sqrt(second moment) into its unbiased value
};

}  // namespace sida
