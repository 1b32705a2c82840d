#pragma once

#include <cstddef>
#include <cstdint>

#include "model/dispatch.h"
#include "model/predicted_routing.h"

namespace sida {

/// What a pass reports of its MoE layers, in order, and what routes them. Pointers may be null where not
/// wanted.
struct RoutingTrace {
  uint16_t* dispatch;    ///< (layers, tokens, k): the experts of each token, kNoExpert over capacity
  uint8_t* found;        ///< (layers, experts): Found
  float* router_logits;  ///< (layers, tokens, experts); not with `predicted`
  /// Checked routing of all layers, in place of the routers.
  const PredictedRouting* predicted = nullptr;
  /// A layer's turn takes every expert of it, needed or not; answers stay the same.
  bool whole_layers = false;
};

/// Tells `trace` what routed layer `trace_layer` of the pass chose; with whole layers every expert becomes
/// needed.
void report_choices(const RoutingTrace& trace, size_t trace_layer, size_t tokens, size_t experts,
                    Dispatch& dispatch);

}  // namespace sida
