#include "predictor/softmax.h"

#include <algorithm>
#include <cmath>

#include "predictor/gate_functions.h"

namespace sida {

double softmax(const float* z, size_t n, float* p) {
  const float top = *std::max_element(z, z + n);
  for (size_t i = 0; i < n; ++i) p[i] = gate_exp(z[i] - top);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += p[i];
  const float scale = static_cast<float>(1 / sum);
  for (size_t i = 0; i < n; ++i) p[i] *= scale;
  return top + std::log(sum);
}

void softmax_backward(const float* p, const float* dp, size_t n, float* dz) {
  double mean = 0;
  for (size_t i = 0; i < n; ++i) mean += static_cast<double>(p[i]) * dp[i];
  for (size_t i = 0; i < n; ++i) dz[i] = p[i] * (dp[i] - static_cast<float>(mean));
}

}  // namespace sida
