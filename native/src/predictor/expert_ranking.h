#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Factors of a layer's logits before the softmax over all its experts; above 0.
struct ExpertSharpness {
  float alpha = 1;
  float chance = 1;
};

/// Overwrites ids (k), k <= n, with the indices of the k greatest logits (n), greatest first and equal ones by index.
/// Overwrites alpha (k) and, unless null, chance (k) with their softmax over all n, at the sharpness of each. False
/// where a logit is not finite; the contents of all three are then undefined.
bool rank_experts(const float* logits, size_t n, size_t k, ExpertSharpness sharpness, uint16_t* ids, float* alpha,
                  float* chance);

using RankExperts = decltype(rank_experts);
/// The function for an instruction set that cpu_kernels_named() has. All give the same bits.
RankExperts* rank_experts_named(const char* isa);

}  // namespace sida
