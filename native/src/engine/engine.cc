#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/profile.h"
#include "engine/dense_loader.h"
#include "engine/devices.h"

namespace sida {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error("invalid_request", "batch: " + what); }

}  // namespace

Engine::Engine(const EngineOptions& options)
    : pack_(open_pack(options.pack)),
      limits_(options.limits),
      plan_(plan_memory(pack_.config, pack_.experts.format, pack_.dense.format, options.limits)),
      slots_(plan_.slots_in(options.budget_bytes)),
      backend_(make_backend(options.limits.device)),
      memory_(*backend_, options.budget_bytes),
      dense_layout_(options.limits.routers ? pack_.dense : without_routers(pack_.dense)),
      dense_(load_dense(memory_, pack_, dense_layout_)),
      cache_(memory_, pack_.config, options.limits.kv_tokens),
      disk_(pack_.stripe_layout(), pack_.expert_paths()),
      host_(pack_.experts.block_bytes, options.host_bytes, backend_->host_memory()),
      store_(pack_.experts, memory_, disk_, host_, options.link, options.reads, slots_),
      weights_(view_weights(pack_.config, dense_layout_, dense_.data())),
      model_(make_model(pack_.config, weights_, memory_, cache_, store_, options.limits)) {}

std::pair<size_t, size_t> Engine::moe_layers(Phase phase) const {
  size_t encoder = 0;
  for (int i = 0; i < pack_.config.num_layers; ++i) encoder += pack_.config.encoder_sparse(i);
  if (phase == Phase::kEncode) return {0, encoder};
  return {encoder, pack_.experts.layers - encoder};
}

void Engine::check_routing_of(const Batch& batch) const {
  const auto [first, count] = moe_layers(batch.phase);
  if (batch.routing.k == 0) {
    if (!limits_.routers && count > 0) refuse("no routing, and the routers are not on the device");
    return;
  }
  if (batch.routing.k > limits_.max_routing_k) {
    refuse("routing names " + std::to_string(batch.routing.k) + " experts a token; the limit is " +
           std::to_string(limits_.max_routing_k));
  }
  const std::vector<std::string> layers = pack_.config.moe_layers();
  check_routing(batch.routing, std::span(layers).subspan(first, count), batch.tokens.size(),
                static_cast<size_t>(pack_.config.num_experts));
}

void Engine::check(const Batch& batch) const {
  const size_t count = batch.sequences.size();
  const size_t tokens = batch.tokens.size();
  if (count == 0) refuse("no sequences");
  if (batch.offsets.size() != count + 1)
    refuse("offsets has " + std::to_string(batch.offsets.size()) + " entries for " + std::to_string(count) +
           " sequences");
  if (tokens > limits_.max_batch_tokens) {
    refuse(std::to_string(tokens) + " tokens exceed the limit of " +
           std::to_string(limits_.max_batch_tokens));
  }
  if (batch.offsets[0] != 0 || batch.offsets[count] != static_cast<int32_t>(tokens)) {
    refuse("offsets do not span its " + std::to_string(tokens) + " tokens");
  }
  for (size_t i = 0; i < count; ++i) {
    if (batch.offsets[i + 1] <= batch.offsets[i]) refuse("sequence " + std::to_string(i) + " has no tokens");
  }
  for (const int32_t token : batch.tokens) {
    if (token < 0 || token >= pack_.config.vocab_size) {
      refuse("token id " + std::to_string(token) + " is outside the vocabulary of " +
             std::to_string(pack_.config.vocab_size));
    }
  }
  for (const int32_t row : batch.logit_rows) {
    if (row < 0 || static_cast<size_t>(row) >= tokens)
      refuse("logit row " + std::to_string(row) + " of " + std::to_string(tokens) + " tokens");
  }
  if (batch.logit_rows.size() > tokens) refuse("more logit rows than tokens");
  if (!batch.attended.empty()) {
    if (batch.phase != Phase::kEncode || batch.attended.size() != count)
      refuse("attended does not match its sequences");
    for (size_t i = 0; i < count; ++i) {
      if (batch.attended[i] < 1 || batch.attended[i] > batch.offsets[i + 1] - batch.offsets[i]) {
        refuse("sequence " + std::to_string(i) + " attends to " + std::to_string(batch.attended[i]) +
               " keys");
      }
    }
  }
  check_routing_of(batch);
  std::vector<int32_t> ids(batch.sequences.begin(), batch.sequences.end());
  std::sort(ids.begin(), ids.end());
  if (std::adjacent_find(ids.begin(), ids.end()) != ids.end()) refuse("a sequence is named twice");
  if (batch.phase == Phase::kEncode) {
    for (const int32_t id : batch.sequences) {
      if (contexts_.contains(id)) refuse("context " + std::to_string(id) + " exists already");
    }
    return;
  }
  if (batch.contexts.size() != count)
    refuse("contexts has " + std::to_string(batch.contexts.size()) + " entries for " + std::to_string(count) +
           " sequences");
  for (size_t i = 0; i < count; ++i) {
    if (!contexts_.contains(batch.contexts[i]))
      refuse("there is no context " + std::to_string(batch.contexts[i]));
    const auto sequence = sequences_.find(batch.sequences[i]);
    if (sequence != sequences_.end() && sequence->second.context != batch.contexts[i]) {
      refuse("sequence " + std::to_string(batch.sequences[i]) + " belongs to context " +
             std::to_string(sequence->second.context));
    }
  }
}

RunStats Engine::run(const Batch& batch, const ResidencyPlan& plan, const BatchOutput& output) {
  const auto start = std::chrono::steady_clock::now();
  const ProfileScope scope(batch.phase == Phase::kEncode ? ProfileOp::kEncode : ProfileOp::kDecode,
                           {.tokens = static_cast<int32_t>(batch.tokens.size())});
  check(batch);
  const PredictedRouting* routing = batch.routing.k > 0 ? &batch.routing : nullptr;
  if (routing != nullptr && output.router_logits != nullptr) {
    refuse("a pass with a routing of its own has no router logits");
  }
  store_.start_pass(plan);
  const RoutingTrace trace{output.dispatch, output.found, output.router_logits, routing, batch.whole_layers};
  if (batch.phase == Phase::kEncode) {
    encode(batch, trace);
  } else {
    decode(batch, trace);
    if (output.logits != nullptr) model_->head(batch.logit_rows, output.logits);
  }
  if (output.hidden_states != nullptr) {
    model_->states(batch.tokens.size(), output.hidden_states);
  }
  RunStats stats{store_.take_stats()};
  stats.pass_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  return stats;
}

void Engine::encode(const Batch& batch, const RoutingTrace& trace) {
  const size_t count = batch.sequences.size();
  std::vector<Context> contexts(count);
  try {
    std::vector<SequenceSpan> spans;
    for (size_t i = 0; i < count; ++i) {
      const auto begin = static_cast<size_t>(batch.offsets[i]);
      const size_t tokens = static_cast<size_t>(batch.offsets[i + 1]) - begin;
      contexts[i].keys = batch.attended.empty() ? tokens : static_cast<size_t>(batch.attended[i]);
      cache_.grow(contexts[i].pages, tokens);
      spans.push_back({begin, tokens, 0, contexts[i].keys, &contexts[i].pages});
    }
    model_->encode(batch.tokens, spans, trace);
  } catch (...) {
    for (Context& context : contexts) cache_.release(context.pages);
    throw;
  }
  for (size_t i = 0; i < count; ++i) contexts_.emplace(batch.sequences[i], std::move(contexts[i]));
}

void Engine::decode(const Batch& batch, const RoutingTrace& trace) {
  const size_t count = batch.sequences.size();
  std::vector<Sequence*> sequences;
  std::vector<int32_t> created;
  try {
    std::vector<SequenceSpan> spans;
    for (size_t i = 0; i < count; ++i) {
      const auto [entry, fresh] = sequences_.try_emplace(batch.sequences[i]);
      if (fresh) created.push_back(batch.sequences[i]);
      Sequence& sequence = entry->second;
      sequences.push_back(&sequence);
      sequence.context = batch.contexts[i];
      const auto begin = static_cast<size_t>(batch.offsets[i]);
      const size_t tokens = static_cast<size_t>(batch.offsets[i + 1]) - begin;
      cache_.grow(sequence.pages, sequence.length + tokens);
      const Context& context = contexts_.at(sequence.context);
      spans.push_back({begin, tokens, sequence.length, 0, &sequence.pages, &context.pages, context.keys});
    }
    model_->decode(batch.tokens, spans, trace);
  } catch (...) {
    for (Sequence* sequence : sequences) cache_.shrink(sequence->pages, sequence->length);
    release_sequences(created);
    throw;
  }
  for (size_t i = 0; i < count; ++i) {
    sequences[i]->length += static_cast<size_t>(batch.offsets[i + 1] - batch.offsets[i]);
  }
}

void Engine::release_contexts(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const auto context = contexts_.find(id);
    if (context == contexts_.end()) continue;
    cache_.release(context->second.pages);
    contexts_.erase(context);
  }
}

void Engine::release_sequences(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    const auto sequence = sequences_.find(id);
    if (sequence == sequences_.end()) continue;
    cache_.release(sequence->second.pages);
    sequences_.erase(sequence);
  }
}

void Engine::set_budget(uint64_t bytes) {
  const size_t slots = plan_.slots_in(bytes);
  const uint64_t before = memory_.budget();
  if (bytes > before) memory_.set_budget(bytes);
  try {
    store_.resize(slots);
  } catch (...) {
    store_.resize(slots_);
    memory_.set_budget(before);
    throw;
  }
  slots_ = slots;
  if (bytes < before) memory_.set_budget(bytes);
}

}  // namespace sida
