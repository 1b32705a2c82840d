#include "predictor/time_major_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace sida {

void TimeMajorRows::assign(std::span<const uint32_t> lengths) {
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
      source_.push_back(first[order[i]] + step);
    }
    step_begin_.push_back(source_.size());
  }
}

void TimeMajorRows::gather(const float* sequence_major, size_t width, float* time_major) const {
  for (size_t row = 0; row < source_.size(); ++row) {
    std::memcpy(time_major + row * width, sequence_major + source_[row] * width, width * sizeof(float));
  }
}

void TimeMajorRows::scatter(const float* time_major, size_t width, float* sequence_major) const {
  for (size_t row = 0; row < source_.size(); ++row) {
    std::memcpy(sequence_major + source_[row] * width, time_major + row * width, width * sizeof(float));
  }
}

}  // namespace sida
