#include "model/routing_trace.h"

#include <algorithm>
#include <numeric>

namespace sida {

void report_choices(const RoutingTrace& trace, size_t trace_layer, size_t tokens, size_t experts,
                    Dispatch& dispatch) {
  std::copy(dispatch.expert.begin(), dispatch.expert.end(),
            trace.dispatch + trace_layer * tokens * dispatch.k);

  if (trace.whole_layers) {
    dispatch.needed.resize(experts);
    std::iota(dispatch.needed.begin(), dispatch.needed.end(), uint16_t{0});
  }
}

}  // namespace sida
