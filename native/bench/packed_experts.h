// Copies of one packed expert, d → ff → d, far more than the caches hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "device/backend.h"
#include "ops/cpu/expert_ffn.h"
#include "support/random_floats.h"
#include "support/weight_formats.h"

namespace sida {

struct PackedExperts {
  WeightFormat format;
  size_t d, ff;
  uint64_t wi_bytes = 0, bytes = 0;
  /// Of `backend`, which must outlive it; never given back.
  std::byte* memory = nullptr;
  std::vector<uint32_t> shuffled;

  PackedExperts(Backend& backend, WeightFormat format_, size_t d_, size_t ff_, size_t max_bytes)
      : format(format_), d(d_), ff(ff_), wi_bytes(panel_matrix_bytes(ff_, d_, format_)) {
    bytes = (wi_bytes + panel_matrix_bytes(d, ff, format) + 4095) / 4096 * 4096;
    shuffled.resize(std::max<size_t>(max_bytes / bytes, 1));
    std::iota(shuffled.begin(), shuffled.end(), 0);
    memory = backend.allocate(shuffled.size() * bytes);
    const std::vector<std::byte> wi = random_panels(format, ff, d, 1), wo = random_panels(format, d, ff, 2);
    std::copy(wi.begin(), wi.end(), memory);
    std::copy(wo.begin(), wo.end(), memory + wi_bytes);
    for (size_t i = 1; i < shuffled.size(); ++i) std::memcpy(memory + i * bytes, memory, bytes);
  }

  /// The rows `order` (count) of the inputs through expert `i`, to `y` (count, d).
  ExpertRows rows(size_t i, const uint32_t* order, size_t count, float* y) const {
    const std::byte* block = memory + i * bytes;
    return {{}, {block, format, d, ff}, {block + wi_bytes, format, ff, d}, order, count, y};
  }
};

/// 0 without values.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace sida
