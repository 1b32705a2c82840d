#include "ops/dispatch.h"

namespace sida {
namespace {

void drop_over_capacity(Dispatch& dispatch, size_t experts, size_t capacity, std::span<const SequenceSpan> sequences) {
  if (capacity >= dispatch.expert.size()) return;
  for (const SequenceSpan& sequence : sequences) {
    dispatch.count.assign(experts, 0);
    const size_t end = (sequence.begin + sequence.count) * dispatch.k;
    for (size_t choice = sequence.begin * dispatch.k; choice < end; ++choice) {
      uint16_t& expert = dispatch.expert[choice];
      if (expert != kNoExpert && dispatch.count[expert]++ >= capacity) expert = kNoExpert;
    }
  }
}

void sort_by_expert(Dispatch& dispatch, size_t experts) {
  dispatch.begin.assign(experts + 1, 0);
  dispatch.needed.clear();
  for (const uint16_t expert : dispatch.expert) {
    if (expert != kNoExpert) ++dispatch.begin[expert + 1];
  }
  for (size_t expert = 0; expert < experts; ++expert) {
    if (dispatch.begin[expert + 1] > 0) dispatch.needed.push_back(static_cast<uint16_t>(expert));
    dispatch.begin[expert + 1] += dispatch.begin[expert];
  }
  dispatch.order.resize(dispatch.begin[experts]);
  std::vector<uint32_t>& next = dispatch.count;
  next.assign(dispatch.begin.begin(), dispatch.begin.end() - 1);
  for (size_t choice = 0; choice < dispatch.expert.size(); ++choice) {
    const uint16_t expert = dispatch.expert[choice];
    if (expert != kNoExpert) dispatch.order[next[expert]++] = static_cast<uint32_t>(choice);
  }
}

}  // namespace

void choose_predicted(const PredictedRouting& routing, size_t layer, size_t tokens, double scale, Dispatch& dispatch) {
  const size_t count = tokens * routing.k;
  const auto chosen = routing.experts.subspan(layer * count, count);
  const auto alpha = routing.alpha.subspan(layer * count, count);
  dispatch.k = routing.k;
  dispatch.expert.assign(chosen.begin(), chosen.end());
  dispatch.alpha.assign(alpha.begin(), alpha.end());
  if (scale == 1) return;
  for (float& factor : dispatch.alpha) factor *= static_cast<float>(scale);
}

void weigh_choices(const float* factors, Dispatch& dispatch) {
  for (size_t choice = 0; choice < dispatch.alpha.size(); ++choice) {
    const uint16_t expert = dispatch.expert[choice];
    if (expert != kNoExpert) dispatch.alpha[choice] *= factors[expert];
  }
}

void sort_choices(size_t experts, size_t capacity, std::span<const SequenceSpan> sequences, Dispatch& dispatch) {
  drop_over_capacity(dispatch, experts, capacity, sequences);
  sort_by_expert(dispatch, experts);
}

}  // namespace sida
