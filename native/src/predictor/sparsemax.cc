#include "predictor/sparsemax.h"

#include <algorithm>
#include <limits>

namespace sida {

// Michelot's projection: repeatedly drop the scores below the threshold of the remaining ones, until none is below it.
// It finds the same support as sorting does. Sums are in double and relative to the largest score.
void sparsemax(const float* z, size_t n, float* p) {
  const float top = *std::max_element(z, z + n);
  double threshold = -std::numeric_limits<double>::infinity();
  size_t support = n + 1;
  for (;;) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; ++i) {
      const double relative = static_cast<double>(z[i]) - top;
      if (relative > threshold) {
        sum += relative;
        ++count;
      }
    }
    // In exact arithmetic the support never grows. Rounding could make it grow and shrink forever.
    if (count >= support) break;
    // Reached only with a NaN or an infinity: otherwise the largest score stays in the support.
    if (count == 0) {
      std::fill_n(p, n, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    support = count;
    threshold = (sum - 1) / static_cast<double>(count);
  }
  for (size_t i = 0; i < n; ++i) {
    p[i] = static_cast<float>(std::max(static_cast<double>(z[i]) - top - threshold, 0.0));
  }
}

void sparsemax_backward(const float* p, const float* dp, size_t n, float* dz) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    if (p[i] > 0) {
      sum += dp[i];
      ++count;
    }
  }
  const float mean = count == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(count));
  for (size_t i = 0; i < n; ++i) dz[i] = p[i] > 0 ? dp[i] - mean : 0.0f;
}

}  // namespace sida
