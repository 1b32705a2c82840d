#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sida {

/// Stands for no expert. In a routing no expert is named; in a dispatch the expert may also have been over capacity.
inline constexpr uint16_t kNoExpert = UINT16_MAX;

/// A table that routes a pass in place of the model's routers: token t of a layer goes to the `k` experts it names, y_t
/// = Σ alpha_j · E_j(x_t).
struct PredictedRouting {
  std::span<const uint16_t> experts;  ///< (layers, tokens, k): expert indices or kNoExpert
  std::span<const float> alpha;       ///< (layers, tokens, k)
  size_t k = 0;                       ///< 0: no routing, the routers decide
};

/// Throws invalid_request, naming layer and token, where an expert does not exist or is named twice for a
/// token, where an alpha is not finite, and where the arrays are not (layers, tokens, k). `experts`: of each
/// layer.
void check_routing(const PredictedRouting& routing, std::span<const std::string> layers, size_t tokens,
                   std::span<const size_t> experts);

}  // namespace sida
