#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sida {

enum class TimeDirection : uint8_t { kForward, kBackward };

/// The order of the tokens of several sequences by time: step 0 of all sequences, then step 1 of those that have one, …
/// The longest sequence comes first, so the sequences that continue at a step are the first rows of the previous step.
/// In the backward direction step 0 is the last token of each sequence.
class TimeMajorRows {
 public:
  void assign(std::span<const uint32_t> lengths, TimeDirection direction = TimeDirection::kForward);

  size_t rows() const { return source_.size(); }
  size_t steps() const { return step_begin_.size() - 1; }
  size_t step_begin(size_t step) const { return step_begin_[step]; }
  size_t step_rows(size_t step) const { return step_begin_[step + 1] - step_begin_[step]; }

  // Sequence-major rows are those of the sequences one after the other, `stride` floats apart. Time-major rows (rows,
  // width) are dense.

  void gather(const float* sequence_major, size_t stride, size_t width, float* time_major) const;
  /// The inverse of gather().
  void scatter(const float* time_major, size_t width, float* sequence_major, size_t stride) const;
  /// The inverse of gather(), adding (+=).
  void scatter_add(const float* time_major, size_t width, float* sequence_major, size_t stride) const;

 private:
  std::vector<size_t> step_begin_{0};
  std::vector<size_t> source_;
};

}  // namespace sida
