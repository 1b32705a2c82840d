#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/function_ref.h"

namespace sida {

/// The tokens of a row in order of descending probability, ties by id. A vocabulary is too long to sort for each token.
/// Tokens are put into buckets by their logits, and a bucket is sorted only when its order is needed.
class DescendingOrder {
 public:
  /// `logits` (vocab) are finite and outlive this. `most` and `least` are their maximum and minimum. A token's weight
  /// is exp((logit - most) / temperature).
  DescendingOrder(std::span<const float> logits, float most, float least, double temperature);

  /// The sum of the weights of the first `count` tokens.
  double mass_of_first(size_t count) const;

  struct Beginning {
    size_t count;
    int32_t last;  ///< The token that ends it.
  };
  /// The shortest beginning for which `enough(count, mass)` holds. Where it holds for one beginning it must hold for
  /// all longer ones, and it must hold for the whole row.
  Beginning shortest(FunctionRef<bool(size_t count, double mass)> enough) const;

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

}  // namespace sida
