#include "ops/descending_order.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/portable_math.h"
#include "ops/cpu/kernels.h"

namespace sida {

namespace {

// Tokens farther from the most likely one than both of these share the last bucket. Their weights are almost 0, and
// logits that forbid a token, such as -1e9, must not widen the buckets of all other tokens.
constexpr double kFarthestTemperatures = 80;
constexpr double kFarthestLogits = 100;

}  // namespace

DescendingOrder::DescendingOrder(std::span<const float> logits, float most, float least, double temperature)
    : logits_(logits), most_(most), temperature_(temperature) {
  const double range = std::min(most_ - least, std::max(kFarthestTemperatures * temperature, kFarthestLogits));
  buckets_per_logit_ = range > 0 ? kBuckets / range : 0;
  constexpr size_t kBlock = 256;
  double weight[kBlock];
  for (size_t start = 0; start < logits.size(); start += kBlock) {
    const size_t count = std::min(kBlock, logits.size() - start);
    for (size_t i = 0; i < count; ++i) weight[i] = (logits[start + i] - most_) / temperature;
    cpu_kernels().exp_nonpositive(weight, count, weight);
    for (size_t i = 0; i < count; ++i) {
      Bucket& bucket = buckets_[bucket_of(logits[start + i])];
      ++bucket.count;
      bucket.mass += weight[i];
    }
  }
}

double DescendingOrder::mass_of_first(size_t count) const {
  size_t passed = 0;
  double mass = 0;
  for (size_t b = 0; b < kBuckets && passed < count; ++b) {
    if (passed + buckets_[b].count <= count) {
      passed += buckets_[b].count;
      mass += buckets_[b].mass;
      continue;
    }
    if (buckets_[b].mass == 0) return mass;  // From here on all weights are 0.
    for (int32_t id : sorted(b)) {
      if (passed++ == count) return mass;
      mass += weight_of(id);
    }
  }
  return mass;
}

DescendingOrder::Beginning DescendingOrder::shortest(FunctionRef<bool(size_t count, double mass)> enough) const {
  size_t passed = 0;
  double mass = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    if (!enough(passed + buckets_[b].count, mass + buckets_[b].mass)) {
      passed += buckets_[b].count;
      mass += buckets_[b].mass;
      continue;
    }
    Beginning found{passed, 0};
    for (int32_t id : sorted(b)) {
      found = {found.count + 1, id};
      mass += weight_of(id);
      if (enough(found.count, mass)) break;
    }
    // Reached where rounding makes the weights in this order add up to less than the bucket's mass.
    return found;
  }
  throw Error("internal", "no beginning of " + std::to_string(logits_.size()) + " tokens is enough. This is a bug.");
}

size_t DescendingOrder::bucket_of(float logit) const {
  return static_cast<size_t>(std::min<double>((most_ - logit) * buckets_per_logit_, kBuckets - 1));
}

double DescendingOrder::weight_of(int32_t id) const {
  return portable_exp((logits_[static_cast<size_t>(id)] - most_) / temperature_);
}

std::vector<int32_t> DescendingOrder::sorted(size_t bucket) const {
  std::vector<int32_t> ids;
  ids.reserve(buckets_[bucket].count);
  for (size_t id = 0; id < logits_.size(); ++id) {
    if (bucket_of(logits_[id]) == bucket) ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits_[static_cast<size_t>(a)];
    const float y = logits_[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  return ids;
}

}  // namespace sida
