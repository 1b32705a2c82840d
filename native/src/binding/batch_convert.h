#pragma once

#include <napi.h>

#include <vector>

#include "engine/engine.h"

namespace sida {

/// A copy of array `name`, because JavaScript may change or detach its own. Empty where the object has none.
template <class T>
std::vector<T> copy_of(const Napi::Object& object, const char* name);

/// NativeBatch of engine-types.ts as the engine takes it.
class BatchArrays {
 public:
  /// Throws invalid_request naming a field that is not of its type.
  explicit BatchArrays(const Napi::Object& js);

  Batch view() const;
  /// Number of most likely tokens wanted, over all picks.
  size_t top() const { return top_; }
  bool wants_hidden_states() const { return hidden_states_; }
  bool wants_router_logits() const { return router_logits_; }

 private:
  void read_picks(const Napi::Value& value);
  void read_adjustments(const Napi::Value& value);
  void read_allowed(const Napi::Value& value);
  void read_queries(const Napi::Value& value);
  void read_routing(const Napi::Value& value);

  size_t stack_;
  std::vector<int32_t> sequences_, parents_, offsets_, tokens_, logit_rows_;
  std::vector<Pick> picks_;
  std::vector<SeenToken> seen_;
  std::vector<TokenBias> biases_;
  std::vector<uint32_t> bitmaps_;  ///< of picks_
  std::vector<TokenQuery> queries_;
  size_t top_ = 0;
  std::vector<uint16_t> routed_experts_;
  std::vector<float> routed_alpha_;
  size_t routing_k_ = 0;
  bool hidden_states_, router_logits_;
  size_t route_ahead_;
  bool whole_layers_;
};

/// RunResult of engine-types.ts: its arrays, which the engine fills.
class BatchAnswers {
 public:
  BatchAnswers(Napi::Env env, const BatchArrays& arrays, const ModelSpec& spec);

  BatchOutput output();
  Napi::Object result(const RunStats& stats);

 private:
  float* floats(const char* name, size_t count);
  void set_picks();

  Napi::Env env_;
  Napi::Object js_;
  BatchOutput output_;
  std::vector<PickedToken> picked_;
  std::vector<RankedToken> top_;
  std::vector<double> query_logprobs_;
};

}  // namespace sida
