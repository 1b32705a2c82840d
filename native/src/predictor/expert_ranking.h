#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// What a layer's logits are multiplied by before the softmax over all its experts; above 0.
struct ExpertSharpness {
  float alpha = 1;
  float chance = 1;
};

/// Overwrites ids (k), k <= n, with the k greatest of the logits (n), greatest first and equal ones by index,
/// alpha (k) and, unless null, chance (k) with their softmax over all n at either sharpness. False where a
/// logit is not finite; all three then hold nothing of use.
bool rank_experts(const float* logits, size_t n, size_t k, ExpertSharpness sharpness, uint16_t* ids,
                  float* alpha, float* chance);

using RankExperts = decltype(rank_experts);
/// For an instruction set of cpu_kernels_named(), which must have it. All give the same bits.
RankExperts* rank_experts_named(const char* isa);

}  // namespace sida
