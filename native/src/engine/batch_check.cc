#include "engine/batch_check.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "weights/expert_shape.h"

namespace sida {

void refuse(const std::string& what) { throw Error("invalid_request", "batch: " + what); }

namespace {

void check_offsets(const Batch& batch) {
  const size_t count = batch.sequences.size();
  const size_t tokens = batch.tokens.size();
  if (batch.offsets.size() != count + 1) {
    refuse("offsets has " + std::to_string(batch.offsets.size()) + " entries for " + std::to_string(count) +
           " sequences");
  }
  if (batch.offsets[0] != 0 || batch.offsets[count] != static_cast<int32_t>(tokens)) {
    refuse("offsets do not span its " + std::to_string(tokens) + " tokens");
  }
  for (size_t i = 0; i < count; ++i) {
    if (batch.offsets[i + 1] <= batch.offsets[i]) refuse("sequence " + std::to_string(i) + " has no tokens");
  }
}

void check_token(int32_t token, size_t vocab) {
  if (token >= 0 && static_cast<size_t>(token) < vocab) return;
  refuse("token id " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(vocab));
}

/// Checks rows whose logits are asked for: inside the pass and ascending.
template <class Entries, class Row>
void check_rows(const char* what, const Entries& entries, size_t tokens, Row row_of) {
  int32_t last = 0;
  for (const auto& entry : entries) {
    const int32_t row = row_of(entry);
    if (row < 0 || static_cast<size_t>(row) >= tokens) {
      refuse(std::string(what) + " row " + std::to_string(row) + " of " + std::to_string(tokens) + " tokens");
    }
    if (row < last) {
      refuse(std::string(what) + " rows do not ascend: " + std::to_string(row) + " after " + std::to_string(last));
    }
    last = row;
  }
}

void check_bitmap(TokenBitmap allowed, size_t vocab) {
  if (allowed.empty()) return;
  if (allowed.size() != bitmap_words(vocab)) {
    refuse("a bitmap of " + std::to_string(allowed.size()) + " words for a vocabulary of " + std::to_string(vocab));
  }
  const uint32_t last = vocab % 32 == 0 ? ~0u : (1u << vocab % 32) - 1;
  const bool any = (allowed.back() & last) != 0 ||
                   std::any_of(allowed.begin(), allowed.end() - 1, [](uint32_t word) { return word != 0; });
  if (!any) refuse("a bitmap that allows no token");
}

void check_answers(const Batch& batch, const ModelSpec& spec) {
  const size_t tokens = batch.tokens.size();
  const bool asked = !batch.picks.empty() || !batch.queries.empty() || !batch.logit_rows.empty();
  if (asked && !spec.head.present) refuse("the model has no head: it gives states alone");
  if (asked && batch.stack + 1 != spec.stacks.size()) refuse("only the last stack has logits");
  check_rows("pick", batch.picks, tokens, [](const Pick& pick) { return pick.row; });
  check_rows("query", batch.queries, tokens, [](const TokenQuery& query) { return query.row; });
  check_rows("logit", batch.logit_rows, tokens, [](int32_t row) { return row; });
  if (batch.logit_rows.size() > tokens) refuse("more logit rows than tokens");
  for (const TokenQuery& query : batch.queries) check_token(query.token, spec.vocab);
  for (const Pick& pick : batch.picks) {
    if (pick.top > spec.vocab) {
      refuse(std::to_string(pick.top) + " most likely tokens of " + std::to_string(spec.vocab));
    }
    for (const SeenToken& token : pick.adjustments.seen) check_token(token.id, spec.vocab);
    for (const TokenBias& each : pick.adjustments.biases) check_token(each.id, spec.vocab);
    check_bitmap(pick.allowed, spec.vocab);
  }
}

void check_routing_of(const Batch& batch, const ModelSpec& spec, const BatchLimits& limits) {
  const size_t first = spec.first_moe_layer(batch.stack);
  const size_t count = spec.first_moe_layer(batch.stack + 1) - first;
  if (batch.routing.k == 0) {
    if (!limits.routers && count > 0) refuse("no routing, and the routers are not on the device");
    return;
  }
  if (batch.routing.k > limits.max_routing_k) {
    refuse("routing names " + std::to_string(batch.routing.k) + " experts a token; the limit is " +
           std::to_string(limits.max_routing_k));
  }
  const std::vector<std::string> layers = spec.moe_layers();
  const std::vector<size_t> experts = spec.layer_experts();
  check_routing(batch.routing, std::span(layers).subspan(first, count), batch.tokens.size(),
                std::span(experts).subspan(first, count));
}

}  // namespace

void check_batch(const Batch& batch, const ModelSpec& spec, const BatchLimits& limits) {
  if (batch.stack >= spec.stacks.size()) {
    refuse("stack " + std::to_string(batch.stack) + " of " + std::to_string(spec.stacks.size()));
  }
  if (batch.sequences.empty()) refuse("no sequences");
  if (!batch.parents.empty() && batch.parents.size() != batch.sequences.size()) {
    refuse("parents has " + std::to_string(batch.parents.size()) + " entries for " +
           std::to_string(batch.sequences.size()) + " sequences");
  }
  if (batch.tokens.size() > limits.max_batch_tokens) {
    refuse(std::to_string(batch.tokens.size()) + " tokens exceed the limit of " +
           std::to_string(limits.max_batch_tokens));
  }
  check_offsets(batch);
  for (const int32_t token : batch.tokens) check_token(token, spec.vocab);
  check_answers(batch, spec);
  check_routing_of(batch, spec, limits);
  // Kept, so that a pass allocates nothing once it has grown.
  thread_local std::vector<int32_t> ids;
  ids.assign(batch.sequences.begin(), batch.sequences.end());
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) refuse("a sequence is named twice");
}

}  // namespace sida
