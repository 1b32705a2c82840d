#include "ops/predicted_routing.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"

namespace sida {
namespace {

void check_size(const char* name, size_t found, const PredictedRouting& routing, size_t layers, size_t tokens) {
  const size_t expected = layers * tokens * routing.k;
  if (found == expected) return;
  throw Error("invalid_request",
              "batch: routing." + std::string(name) + " has " + std::to_string(found) + " entries; expected " +
                  std::to_string(expected) + " (" + std::to_string(layers) + " layers, " + std::to_string(tokens) +
                  " tokens, k " + std::to_string(routing.k) + ")",
              {{"expected", static_cast<double>(expected)}, {"found", static_cast<double>(found)}});
}

}  // namespace

void check_routing(const PredictedRouting& routing, std::span<const std::string> layers, size_t tokens,
                   std::span<const size_t> experts) {
  check_size("experts", routing.experts.size(), routing, layers.size(), tokens);
  check_size("alpha", routing.alpha.size(), routing, layers.size(), tokens);
  // The last row that named each expert, counted from 1.
  std::vector<size_t> named(experts.empty() ? 0 : *std::max_element(experts.begin(), experts.end()));
  for (size_t row = 0; row < layers.size() * tokens; ++row) {
    const auto refuse = [&](const std::string& what) {
      throw Error("invalid_request",
                  "batch: routing of " + layers[row / tokens] + ", token " + std::to_string(row % tokens) + ": " + what,
                  {{"layer", static_cast<double>(row / tokens)}, {"token", static_cast<double>(row % tokens)}});
    };
    for (size_t entry = row * routing.k; entry < (row + 1) * routing.k; ++entry) {
      if (!std::isfinite(routing.alpha[entry])) refuse("alpha is not finite");
      const size_t expert = routing.experts[entry];
      if (expert == kNoExpert) continue;
      if (const size_t count = experts[row / tokens]; expert >= count) {
        refuse("expert " + std::to_string(expert) + " of " + std::to_string(count));
      }
      if (named[expert] == row + 1) refuse("expert " + std::to_string(expert) + " is named twice");
      named[expert] = row + 1;
    }
  }
}

}  // namespace sida
