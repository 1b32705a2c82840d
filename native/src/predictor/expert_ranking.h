#pragma once

#include <cstddef>
#include <cstdint>

namespace sida {

/// Overwrites ids and probabilities (k), k <= n, with the k greatest of the logits (n), greatest first and
/// equal ones by index, and their softmax over all n. False where a logit is not finite; ids and
/// probabilities then hold nothing of use.
bool rank_experts(const float* logits, size_t n, size_t k, uint16_t* ids, float* probabilities);

}  // namespace sida
