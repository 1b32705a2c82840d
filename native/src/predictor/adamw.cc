#include "predictor/adamw.h"

#include <cmath>

namespace sida {

AdamWStep::AdamWStep(const AdamWOptions& options, uint64_t steps, float learning_rate) : options_(options) {
  const double t = static_cast<double>(steps + 1);
  const double rate = learning_rate;
  shrink_ = static_cast<float>(1 - rate * options.weight_decay);
  rate_ = static_cast<float>(rate / (1 - std::pow(static_cast<double>(options.beta1), t)));
  square_scale_ = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(options.beta2), t)));
}

void AdamWStep::update(size_t count, const float* __restrict gradient, float gradient_scale, float* __restrict weights,
                       float* __restrict mean, float* __restrict square) const {
  const float beta1 = options_.beta1;
  const float beta2 = options_.beta2;
  const float epsilon = options_.epsilon;
  const float shrink = shrink_;
  const float rate = rate_;
  const float square_scale = square_scale_;
  for (size_t i = 0; i < count; ++i) {
    const float g = gradient[i] * gradient_scale;
    mean[i] = beta1 * mean[i] + (1.0f - beta1) * g;
    square[i] = beta2 * square[i] + (1.0f - beta2) * (g * g);
    // The compiler makes one vector instruction of this; std::sqrt would also set errno.
    const float root = __builtin_sqrtf(square[i]);
    weights[i] = weights[i] * shrink - rate * mean[i] / (root * square_scale + epsilon);
  }
}

}  // namespace sida
