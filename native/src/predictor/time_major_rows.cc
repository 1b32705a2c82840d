#include "predictor/time_major_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace sida {

void TimeMajorRows::assign(std::span<const uint32_t> lengths, TimeDirection direction) {
  std::vector<size_t> first(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), first.begin(), size_t{0});
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lengths[a] > lengths[b]; });
  step_begin_.assign(1, 0);
  source_.clear();
  const size_t steps = lengths.empty() ? 0 : lengths[order[0]];
  for (size_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < order.size() && lengths[order[i]] > step; ++i) {
      const size_t token = direction == TimeDirection::kForward ? step : lengths[order[i]] - 1 - step;
      source_.push_back(first[order[i]] + token);
    }
    step_begin_.push_back(source_.size());
  }
}

void TimeMajorRows::gather(const float* sequence_major, size_t stride, size_t width, float* time_major) const {
  for (size_t row = 0; row < source_.size(); ++row) {
    std::memcpy(time_major + row * width, sequence_major + source_[row] * stride, width * sizeof(float));
  }
}

void TimeMajorRows::scatter(const float* time_major, size_t width, float* sequence_major, size_t stride) const {
  for (size_t row = 0; row < source_.size(); ++row) {
    std::memcpy(sequence_major + source_[row] * stride, time_major + row * width, width * sizeof(float));
  }
}

void TimeMajorRows::scatter_add(const float* time_major, size_t width, float* sequence_major, size_t stride) const {
  for (size_t row = 0; row < source_.size(); ++row) {
    const float* from = time_major + row * width;
    float* to = sequence_major + source_[row] * stride;
    for (size_t i = 0; i < width; ++i) to[i] += from[i];
  }
}

}  // namespace sida
