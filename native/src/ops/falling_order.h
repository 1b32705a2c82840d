#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sida {

/// The tokens of a row in order of falling probability, ties by id. A vocabulary is too long to be sorted for one
/// token, so tokens fall into buckets by their logits, and only buckets that are looked into are sorted.
class FallingOrder {
 public:
  /// `logits` (vocab) are finite and outlive this. Weights are exp((logit - most) / temperature), where `most`
  /// and `least` are the row's.
  FallingOrder(std::span<const float> logits, float most, float least, double temperature);

  /// The first `count` tokens, at least one, of all: the sum of their weights, and the token that ends them.
  struct Beginning {
    size_t count = 0;
    double mass = 0;
    int32_t last = 0;
  };

  /// The shortest beginning with `enough(count, mass)`, which must stay true once it is; all tokens where it never
  /// is true.
  template <class Enough>
  Beginning shortest(Enough enough) const;

 private:
  static constexpr size_t kBuckets = 1024;
  struct Bucket {
    size_t count = 0;
    double mass = 0;
  };

  size_t bucket_of(float logit) const;
  double weight_of(int32_t id) const;
  std::vector<int32_t> sorted(size_t bucket) const;

  std::span<const float> logits_;
  double most_;
  double temperature_;
  double buckets_per_logit_;
  std::array<Bucket, kBuckets> buckets_;
};

template <class Enough>
FallingOrder::Beginning FallingOrder::shortest(Enough enough) const {
  Beginning all;
  size_t last_bucket = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    if (buckets_[b].count == 0) continue;
    last_bucket = b;
    const Beginning before = all;
    all.count += buckets_[b].count;
    all.mass += buckets_[b].mass;
    if (!enough(all.count, all.mass)) continue;
    Beginning found = before;
    for (int32_t id : sorted(b)) {
      found = {found.count + 1, found.mass + weight_of(id), id};
      if (enough(found.count, found.mass)) return found;
    }
    // Summed in this order the weights are an ulp below the bucket's sum.
    return {all.count, all.mass, found.last};
  }
  all.last = sorted(last_bucket).back();
  return all;
}

}  // namespace sida
