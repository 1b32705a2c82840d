#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/device_passes.h"
#include "ops/dispatch.h"
#include "ops/predicted_routing.h"

namespace sida {

/// What a pass reports of its MoE layers, in order, and how they are routed and loaded. `experts` is the most of any
/// layer. A null pointer: not wanted.
struct RoutingTrace {
  uint16_t* dispatch;  ///< (layers, tokens, k): the experts of each token, kNoExpert over capacity
  uint8_t* found;      ///< (layers, experts): Found
  /// (layers, tokens, experts), -inf of experts that a layer does not have; not with `predicted`.
  float* router_logits;
  /// Checked routing of all layers, in place of the routers.
  const PredictedRouting* predicted = nullptr;
  /// MoE layers whose experts are named ahead (graph/blocks/route_ahead.h). Answers stay the same.
  size_t route_ahead = 0;
  /// Each layer takes all its experts from the store, needed or not. Answers stay the same.
  bool whole_layers = false;
  /// Where the device runs the pass without the host: the store has filled its table. None of the above then, but
  /// `dispatch` and `found`.
  DevicePasses* alone = nullptr;
};

/// Reports the choices of layer `trace_layer` of the pass to `trace`. With whole_layers every expert becomes needed.
void report_choices(const RoutingTrace& trace, size_t trace_layer, size_t tokens, size_t experts, Dispatch& dispatch);

/// Moves rows of `from` logits at the beginning of `logits` (tokens, to) to their places, with -inf behind each.
void widen_rows(float* logits, size_t tokens, size_t from, size_t to);

}  // namespace sida
