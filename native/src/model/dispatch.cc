#include "model/dispatch.h"

#include <algorithm>

#include "ops/kernels.h"

namespace sida {

Dispatch route_top1(float* logits, size_t tokens, size_t experts, size_t capacity,
                    std::span<const SequenceSpan> sequences) {
  const CpuKernels& kernels = cpu_kernels();
  Dispatch dispatch;
  dispatch.expert.resize(tokens);
  dispatch.alpha.resize(tokens);
  dispatch.begin.assign(experts + 1, 0);
  std::vector<size_t> taken(experts);
  for (const SequenceSpan& sequence : sequences) {
    std::fill(taken.begin(), taken.end(), 0);
    for (size_t token = sequence.begin; token < sequence.begin + sequence.count; ++token) {
      float* row = logits + token * experts;
      kernels.softmax(row, experts, row);
      const auto best = static_cast<size_t>(std::max_element(row, row + experts) - row);
      dispatch.alpha[token] = row[best];
      if (taken[best]++ >= capacity) {
        dispatch.expert[token] = kDropped;
        continue;
      }
      dispatch.expert[token] = static_cast<uint16_t>(best);
      ++dispatch.begin[best + 1];
    }
  }
  for (size_t expert = 0; expert < experts; ++expert) {
    if (dispatch.begin[expert + 1] > 0) dispatch.needed.push_back(static_cast<uint16_t>(expert));
    dispatch.begin[expert + 1] += dispatch.begin[expert];
  }
  dispatch.order.resize(dispatch.begin[experts]);
  std::vector<uint32_t> next(dispatch.begin.begin(), dispatch.begin.end() - 1);
  for (size_t token = 0; token < tokens; ++token) {
    if (dispatch.expert[token] != kDropped) {
      dispatch.order[next[dispatch.expert[token]]++] = static_cast<uint32_t>(token);
    }
  }
  return dispatch;
}

}  // namespace sida
