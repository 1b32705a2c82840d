#include "graph/token_positions.h"

#include <algorithm>

namespace sida {

void token_positions(const Sinusoids& sinusoids, std::span<const int32_t> tokens,
                     std::span<const SequenceSpan> sequences, std::vector<uint32_t>& positions) {
  positions.resize(tokens.size());
  for (const SequenceSpan& sequence : sequences) {
    auto last = static_cast<uint32_t>(sequence.past - sequence.past_padding) + static_cast<uint32_t>(sinusoids.pad);
    for (size_t i = sequence.begin; i < sequence.begin + sequence.count; ++i) {
      positions[i] = tokens[i] == sinusoids.pad ? 0 : ++last;
    }
  }
}

size_t count_padding(const Positions& positions, std::span<const int32_t> tokens) {
  const auto* sinusoids = std::get_if<Sinusoids>(&positions);
  return sinusoids == nullptr ? 0 : static_cast<size_t>(std::count(tokens.begin(), tokens.end(), sinusoids->pad));
}

}  // namespace sida
