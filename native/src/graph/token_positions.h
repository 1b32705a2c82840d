#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/sequence_span.h"
#include "spec/spec.h"

namespace sida {

/// The positions (tokens) of a pass's tokens as Sinusoids says; 0 where a token has none.
void token_positions(const Sinusoids& sinusoids, std::span<const int32_t> tokens,
                     std::span<const SequenceSpan> sequences, std::vector<uint32_t>& positions);

/// How many of `tokens` have no position in a stack.
size_t count_padding(const Positions& positions, std::span<const int32_t> tokens);

}  // namespace sida
