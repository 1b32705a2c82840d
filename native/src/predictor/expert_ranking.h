#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Overwrites ids and probabilities (k), k <= n, with the k greatest of the logits (n), greatest first and
/// equal ones by index, and their softmax over all n; chances (k), unless null, with the softmax of the
/// logits times `sharpness`. False where a logit is not finite; all three then hold nothing of use.
bool rank_experts(const float* logits, size_t n, size_t k, float sharpness, uint16_t* ids,
                  float* probabilities, float* chances);

using RankExperts = decltype(rank_experts);
/// For an instruction set of cpu_kernels_named(), which must have it. All give the same bits.
RankExperts* rank_experts_named(const char* isa);

}  // namespace sida
