#include "ops/falling_order.h"

#include "core/portable_math.h"
#include "ops/kernels.h"

namespace sida {

namespace {

// Of a logit's distance to the highest, in temperatures. Weights beyond are below 2^-92 together, whatever the
// vocabulary: their tokens share the last bucket.
constexpr double kFarthest = 80;

}  // namespace

FallingOrder::FallingOrder(std::span<const float> logits, float most, float least, double temperature)
    : logits_(logits), most_(most), temperature_(temperature) {
  const double range = std::min(most_ - least, kFarthest * temperature);
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

size_t FallingOrder::bucket_of(float logit) const {
  return static_cast<size_t>(std::min<double>((most_ - logit) * buckets_per_logit_, kBuckets - 1));
}

double FallingOrder::weight_of(int32_t id) const {
  return portable_exp((logits_[static_cast<size_t>(id)] - most_) / temperature_);
}

std::vector<int32_t> FallingOrder::sorted(size_t bucket) const {
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
