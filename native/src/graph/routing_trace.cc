#include "graph/routing_trace.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace sida {

void report_choices(const RoutingTrace& trace, size_t trace_layer, size_t tokens, size_t experts, Dispatch& dispatch) {
  std::copy(dispatch.expert.begin(), dispatch.expert.end(), trace.dispatch + trace_layer * tokens * dispatch.k);

  if (trace.whole_layers) {
    dispatch.needed.resize(experts);
    std::iota(dispatch.needed.begin(), dispatch.needed.end(), uint16_t{0});
  }
}

void widen_rows(float* logits, size_t tokens, size_t from, size_t to) {
  if (from == to) return;
  for (size_t token = tokens; token-- > 0;) {
    float* row = logits + token * to;
    std::memmove(row, logits + token * from, from * sizeof(float));
    std::fill(row + from, row + to, -std::numeric_limits<float>::infinity());
  }
}

}  // namespace sida
