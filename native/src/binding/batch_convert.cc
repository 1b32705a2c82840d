#include "binding/batch_convert.h"

#include <algorithm>

#include "binding/convert.h"

namespace sida {
namespace {

bool absent(const Napi::Value& value) { return value.IsUndefined() || value.IsNull(); }

Napi::Object object_of(const Napi::Value& value, const char* name) {
  if (value.IsObject()) return value.As<Napi::Object>();
  throw Error("invalid_request", std::string("expected \"") + name + "\" to be an object");
}

/// A copy of array `name`, which must have `expected` elements.
template <class T>
std::vector<T> copy_of_size(const Napi::Object& object, const char* name, size_t expected) {
  std::vector<T> values = copy_of<T>(object, name);
  if (values.size() == expected) return values;
  throw Error("invalid_request", std::string("expected \"") + name + "\" to have " + std::to_string(expected) +
                                     " elements, found " + std::to_string(values.size()));
}

/// Where each of `lists` lists ends that lie in one array of `size` elements.
std::vector<uint32_t> ends_of(const Napi::Object& object, const char* name, size_t lists, size_t size) {
  std::vector<uint32_t> ends = copy_of_size<uint32_t>(object, name, lists);
  if (std::is_sorted(ends.begin(), ends.end()) && (lists == 0 ? 0 : ends.back()) == size) return ends;
  throw Error("invalid_request", std::string("expected \"") + name + "\" to ascend to " + std::to_string(size));
}

bool wanted(const Napi::Object& batch, const char* name) { return batch.Get(name).ToBoolean().Value(); }

}  // namespace

template <class T>
std::vector<T> copy_of(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (absent(value)) return {};
  const auto elements = span_of<T>(value, name);
  return {elements.begin(), elements.end()};
}
template std::vector<double> copy_of(const Napi::Object& object, const char* name);
template std::vector<uint32_t> copy_of(const Napi::Object& object, const char* name);

BatchArrays::BatchArrays(const Napi::Object& js)
    : stack_(js.Get("stack").ToNumber().Uint32Value()),
      sequences_(copy_of<int32_t>(js, "sequences")),
      parents_(copy_of<int32_t>(js, "parents")),
      offsets_(copy_of<int32_t>(js, "offsets")),
      tokens_(copy_of<int32_t>(js, "tokens")),
      logit_rows_(copy_of<int32_t>(js, "logitRows")),
      hidden_states_(wanted(js, "hiddenStates")),
      router_logits_(wanted(js, "routerLogits")),
      route_ahead_(absent(js.Get("routeAhead")) ? 0 : js.Get("routeAhead").ToNumber().Uint32Value()),
      whole_layers_(wanted(js, "wholeLayers")) {
  if (!js.Get("stack").IsNumber()) throw Error("invalid_request", "expected \"stack\" to be a stack's index");
  read_picks(js.Get("picks"));
  read_queries(js.Get("queries"));
  read_routing(js.Get("routing"));
}

void BatchArrays::read_picks(const Napi::Value& value) {
  if (absent(value)) return;
  const Napi::Object js = object_of(value, "picks");
  const auto rows = copy_of<int32_t>(js, "rows");
  const auto top =
      absent(js.Get("top")) ? std::vector<int32_t>(rows.size()) : copy_of_size<int32_t>(js, "top", rows.size());
  picks_.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    picks_[i].row = rows[i];
    picks_[i].top = static_cast<uint32_t>(std::max(top[i], 0));
    top_ += picks_[i].top;
  }
  read_adjustments(js.Get("adjustments"));
  read_allowed(js.Get("allowed"));
  if (absent(js.Get("sampling"))) return;
  const Napi::Object sampling = object_of(js.Get("sampling"), "sampling");
  const auto temperature = copy_of_size<float>(sampling, "temperature", rows.size());
  const auto top_p = copy_of_size<float>(sampling, "topP", rows.size());
  const auto min_p = copy_of_size<float>(sampling, "minP", rows.size());
  const auto top_k = copy_of_size<int32_t>(sampling, "topK", rows.size());
  const auto seed = copy_of_size<uint64_t>(sampling, "seed", rows.size());
  const auto position = copy_of_size<double>(sampling, "position", rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    picks_[i].sampling = {temperature[i], top_p[i],
                          min_p[i],       static_cast<uint32_t>(std::max(top_k[i], 0)),
                          seed[i],        static_cast<uint64_t>(position[i])};
  }
}

void BatchArrays::read_adjustments(const Napi::Value& value) {
  if (absent(value)) return;
  const Napi::Object js = object_of(value, "adjustments");
  const auto presence = copy_of_size<double>(js, "presence", picks_.size());
  const auto frequency = copy_of_size<double>(js, "frequency", picks_.size());
  const auto repetition = copy_of_size<double>(js, "repetition", picks_.size());
  const auto ids = copy_of<int32_t>(js, "seen");
  const auto generated = copy_of_size<uint32_t>(js, "generated", ids.size());
  for (size_t i = 0; i < ids.size(); ++i) seen_.push_back({ids[i], generated[i]});
  const auto bias_ids = copy_of<int32_t>(js, "biased");
  const auto biases = copy_of_size<double>(js, "biases", bias_ids.size());
  for (size_t i = 0; i < bias_ids.size(); ++i) biases_.push_back({bias_ids[i], biases[i]});
  const auto seen_ends = ends_of(js, "seenEnds", picks_.size(), seen_.size());
  const auto bias_ends = ends_of(js, "biasedEnds", picks_.size(), biases_.size());
  for (size_t i = 0, seen = 0, bias = 0; i < picks_.size(); seen = seen_ends[i], bias = bias_ends[i], ++i) {
    picks_[i].adjustments = {std::span(seen_).subspan(seen, seen_ends[i] - seen),
                             std::span(biases_).subspan(bias, bias_ends[i] - bias), presence[i], frequency[i],
                             repetition[i]};
  }
}

/// `bitmaps` has one row of words for each pick whose entry in `rows` is not negative, which is the row's index.
void BatchArrays::read_allowed(const Napi::Value& value) {
  if (absent(value) || picks_.empty()) return;
  const Napi::Object js = object_of(value, "allowed");
  const auto rows = copy_of_size<int32_t>(js, "rows", picks_.size());
  bitmaps_ = copy_of<uint32_t>(js, "bitmaps");
  const auto count = static_cast<size_t>(std::max(0, *std::max_element(rows.begin(), rows.end()) + 1));
  if (count == 0) return;
  const size_t words = bitmaps_.size() / count;
  if (words * count != bitmaps_.size() || words == 0) {
    throw Error("invalid_request", "expected \"bitmaps\" to have " + std::to_string(count) + " rows of words, found " +
                                       std::to_string(bitmaps_.size()) + " words");
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0) continue;
    picks_[i].allowed = TokenBitmap(bitmaps_).subspan(static_cast<size_t>(rows[i]) * words, words);
  }
}

void BatchArrays::read_queries(const Napi::Value& value) {
  if (absent(value)) return;
  const Napi::Object js = object_of(value, "queries");
  const auto rows = copy_of<int32_t>(js, "rows");
  const auto tokens = copy_of_size<int32_t>(js, "tokens", rows.size());
  for (size_t i = 0; i < rows.size(); ++i) queries_.push_back({rows[i], tokens[i]});
}

void BatchArrays::read_routing(const Napi::Value& value) {
  if (absent(value)) return;
  const Napi::Object js = object_of(value, "routing");
  routing_k_ = positive_from_js(js, "k", kMaxRoutingK);
  routed_experts_ = copy_of<uint16_t>(js, "experts");
  routed_alpha_ = copy_of<float>(js, "alpha");
}

Batch BatchArrays::view() const {
  Batch batch;
  batch.stack = stack_;
  batch.sequences = sequences_;
  batch.parents = parents_;
  batch.offsets = offsets_;
  batch.tokens = tokens_;
  batch.picks = picks_;
  batch.queries = queries_;
  batch.logit_rows = logit_rows_;
  batch.routing = {routed_experts_, routed_alpha_, routing_k_};
  batch.route_ahead = route_ahead_;
  batch.whole_layers = whole_layers_;
  return batch;
}

BatchAnswers::BatchAnswers(Napi::Env env, const BatchArrays& arrays, const ModelSpec& spec)
    : env_(env), js_(Napi::Object::New(env)) {
  const Batch batch = arrays.view();
  const size_t first_layer = spec.first_moe_layer(batch.stack);
  const size_t layers = spec.first_moe_layer(batch.stack + 1) - first_layer;
  const size_t tokens = batch.tokens.size();
  const size_t k = batch.routing.k > 0 ? batch.routing.k : spec.top_k();
  auto numbers = Napi::Int32Array::New(env, layers);
  for (size_t i = 0; i < layers; ++i) numbers[i] = static_cast<int32_t>(first_layer + i);
  js_.Set("layers", numbers);
  auto dispatch = Napi::Uint16Array::New(env, layers * tokens * k);
  auto found = Napi::Uint8Array::New(env, layers * spec.experts());
  js_.Set("dispatch", dispatch);
  js_.Set("found", found);
  output_.dispatch = dispatch.Data();
  output_.found = found.Data();
  picked_.resize(batch.picks.size());
  top_.resize(arrays.top());
  query_logprobs_.resize(batch.queries.size());
  if (!batch.logit_rows.empty()) output_.logits = floats("logits", batch.logit_rows.size() * spec.vocab);
  if (arrays.wants_hidden_states()) output_.hidden_states = floats("hiddenStates", tokens * spec.width);
  if (arrays.wants_router_logits()) {
    output_.router_logits = floats("routerLogits", layers * tokens * spec.experts());
  }
}

float* BatchAnswers::floats(const char* name, size_t count) {
  auto array = Napi::Float32Array::New(env_, count);
  js_.Set(name, array);
  return array.Data();
}

BatchOutput BatchAnswers::output() {
  BatchOutput output = output_;
  output.picked = picked_;
  output.top = top_;
  output.query_logprobs = query_logprobs_;
  return output;
}

void BatchAnswers::set_picks() {
  const auto set = [&](const char* ids_name, const char* logprobs_name, const auto& entries) {
    auto ids = Napi::Int32Array::New(env_, entries.size());
    auto logprobs = Napi::Float64Array::New(env_, entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      ids[i] = entries[i].id;
      logprobs[i] = entries[i].logprob;
    }
    js_.Set(ids_name, ids);
    js_.Set(logprobs_name, logprobs);
  };
  if (!picked_.empty()) set("picked", "pickedLogprobs", picked_);
  if (!top_.empty()) set("topIds", "topLogprobs", top_);
  if (query_logprobs_.empty()) return;
  auto logprobs = Napi::Float64Array::New(env_, query_logprobs_.size());
  std::copy(query_logprobs_.begin(), query_logprobs_.end(), logprobs.Data());
  js_.Set("queryLogprobs", logprobs);
}

Napi::Object BatchAnswers::result(const RunStats& stats) {
  set_picks();
  Napi::Object figures = Napi::Object::New(env_);
  const auto set = [&](const char* name, uint64_t value) { figures.Set(name, static_cast<double>(value)); };
  set("needed", stats.needed);
  set("resident", stats.resident);
  set("prefetched", stats.prefetched);
  set("late", stats.late);
  set("onDemand", stats.on_demand);
  set("bytesMoved", stats.bytes_moved);
  set("prefetchesBegun", stats.prefetches_begun);
  set("prefetchesForeseen", stats.prefetches_foreseen);
  set("prefetchesCancelled", stats.prefetches_cancelled);
  set("prefetchesWasted", stats.prefetches_wasted);
  set("stallNs", stats.stall_ns);
  set("diskReads", stats.disk_reads);
  set("diskBytes", stats.disk_bytes);
  set("overtakes", stats.overtakes);
  set("peer", stats.peer);
  set("cpu", stats.cpu);
  set("peerWaitNs", stats.peer_wait_ns);
  set("passNs", stats.pass_ns);
  set("devicePasses", stats.alone ? 1 : 0);
  js_.Set("stats", figures);
  return js_;
}

}  // namespace sida
