#include "model/dispatch.h"

#include <algorithm>

#include "ops/kernels.h"

namespace sida {
namespace {

void drop_over_capacity(Dispatch& dispatch, size_t experts, size_t capacity,
                        std::span<const SequenceSpan> sequences) {
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

void sort_choices(size_t experts, size_t capacity, std::span<const SequenceSpan> sequences,
                  Dispatch& dispatch) {
  drop_over_capacity(dispatch, experts, capacity, sequences);
  sort_by_expert(dispatch, experts);
}

void route_top1(float* logits, size_t tokens, size_t experts, size_t capacity,
                std::span<const SequenceSpan> sequences, Dispatch& dispatch) {
  const CpuKernels& kernels = cpu_kernels();
  dispatch.k = 1;
  dispatch.expert.resize(tokens);
  dispatch.alpha.resize(tokens);
  for (size_t token = 0; token < tokens; ++token) {
    float* row = logits + token * experts;
    kernels.softmax(row, experts, row);
    const float* best = std::max_element(row, row + experts);
    dispatch.expert[token] = static_cast<uint16_t>(best - row);
    dispatch.alpha[token] = *best;
  }
  sort_choices(experts, capacity, sequences, dispatch);
}

void route_predicted(const PredictedRouting& routing, size_t layer, size_t tokens, size_t experts,
                     size_t capacity, std::span<const SequenceSpan> sequences, Dispatch& dispatch) {
  const size_t count = tokens * routing.k;
  const auto chosen = routing.experts.subspan(layer * count, count);
  const auto alpha = routing.alpha.subspan(layer * count, count);
  dispatch.k = routing.k;
  dispatch.expert.assign(chosen.begin(), chosen.end());
  dispatch.alpha.assign(alpha.begin(), alpha.end());
  sort_choices(experts, capacity, sequences, dispatch);
}

}  // namespace sida
