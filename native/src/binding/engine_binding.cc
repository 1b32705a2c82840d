#include "binding/engine_binding.h"

#include "binding/convert.h"

namespace sida {
namespace {

/// A copy: JavaScript may change or detach its array while a callback runs.
template <class T>
std::vector<T> copy_of(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (value.IsUndefined() || value.IsNull()) return {};
  const auto elements = span_of<T>(value, name);
  return {elements.begin(), elements.end()};
}

/// The `routing` of a batch; k is 0 where it has none.
struct RoutingArrays {
  explicit RoutingArrays(const Napi::Value& value) {
    if (value.IsUndefined() || value.IsNull()) return;
    if (!value.IsObject()) throw Error("invalid_request", "expected \"routing\" to be an object");
    const auto js = value.As<Napi::Object>();
    k = positive_from_js(js, "k", kMaxRoutingK);
    experts = copy_of<uint16_t>(js, "experts");
    alpha = copy_of<float>(js, "alpha");
  }

  std::vector<uint16_t> experts;
  std::vector<float> alpha;
  size_t k = 0;
};

std::vector<ExpertId> expert_ids(size_t experts, std::span<const uint32_t> ids) {
  for (const uint32_t id : ids) {
    if (id >= experts) {
      throw Error("invalid_request", "expert " + std::to_string(id) + " of " + std::to_string(experts));
    }
  }
  return {ids.begin(), ids.end()};
}

/// A plan of JavaScript's; none: experts are fetched on demand and the least recently used go first.
class PlanCopy {
 public:
  PlanCopy(size_t experts, const Napi::Value& value) {
    if (!value.IsObject()) return;
    const auto js = value.As<Napi::Object>();
    keys_ = copy_of<double>(js, "keys");
    keys_after_ = copy_of<double>(js, "keysAfter");
    loads_ = expert_ids(experts, copy_of<uint32_t>(js, "loads"));
    expendable_ = js.Get("expendable").ToNumber().DoubleValue();
    newest_first_ = js.Get("newestFirst").ToBoolean().Value();
  }

  ResidencyPlan view() const { return {keys_, keys_after_, loads_, expendable_, newest_first_}; }

 private:
  std::vector<double> keys_;
  std::vector<double> keys_after_;
  std::vector<ExpertId> loads_;
  double expendable_ = 0;
  bool newest_first_ = false;
};

/// 0 where JavaScript names none.
size_t read_depth_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return 0;
  const uint64_t depth = bytes_from_js(value, "readDepth");
  if (depth <= kMostReadDepth) return depth;
  throw Error("invalid_request", "expected \"readDepth\" to be at most " + std::to_string(kMostReadDepth) +
                                     ", found " + std::to_string(depth));
}

uint64_t read_piece_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return 0;
  const uint64_t bytes = bytes_from_js(value, "readPieceBytes");
  if (bytes % 4096 == 0) return bytes;
  throw Error("invalid_request",
              "expected \"readPieceBytes\" to be a multiple of 4096, found " + std::to_string(bytes));
}

/// How each file of the pack's experts is read.
Napi::Array read_settings_to_js(Napi::Env env, Engine& engine) {
  const std::vector<ReadSettings>& all = engine.store().read_settings();
  Napi::Array files = Napi::Array::New(env, all.size());
  for (uint32_t i = 0; i < all.size(); ++i) {
    Napi::Object file = Napi::Object::New(env);
    file.Set("direct", engine.disk().file(i).direct());
    file.Set("depth", static_cast<double>(all[i].depth));
    file.Set("pieceBytes", static_cast<double>(all[i].piece_bytes));
    file.Set("bytesPerSecond", all[i].bytes_per_second);
    files[i] = file;
  }
  return files;
}

Phase phase_of(const Napi::Value& value) {
  const std::string phase = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  if (phase == "encode") return Phase::kEncode;
  if (phase == "decode") return Phase::kDecode;
  throw Error("invalid_request", "expected \"phase\" to be encode or decode");
}

bool wanted(const Napi::Object& batch, const char* name) { return batch.Get(name).ToBoolean().Value(); }

}  // namespace

Napi::Function EngineBinding::define(Napi::Env env) {
  return DefineClass(
      env, "Engine",
      {InstanceAccessor<&EngineBinding::shape>("shape"), InstanceAccessor<&EngineBinding::plan>("plan"),
       InstanceAccessor<&EngineBinding::formats>("formats"),
       InstanceMethod<&EngineBinding::run_batch>("runBatch"),
       InstanceMethod<&EngineBinding::release_contexts>("releaseContexts"),
       InstanceMethod<&EngineBinding::release_sequences>("releaseSequences"),
       InstanceMethod<&EngineBinding::residency>("residency"), InstanceMethod<&EngineBinding::usage>("usage"),
       InstanceMethod<&EngineBinding::set_budget>("setBudget"), InstanceMethod<&EngineBinding::pin>("pin"),
       InstanceMethod<&EngineBinding::check_integrity>("checkIntegrity"),
       InstanceMethod<&EngineBinding::close>("close")});
}

EngineBinding::EngineBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto js = info[0].As<Napi::Object>();
    const auto number = [&](const char* name) { return js.Get(name).ToNumber().DoubleValue(); };
    EngineOptions options;
    options.pack = js.Get("pack").As<Napi::String>().Utf8Value();
    options.budget_bytes = bytes_from_js(js.Get("budgetBytes"), "budgetBytes");
    options.host_bytes = bytes_from_js(js.Get("hostBudgetBytes"), "hostBudgetBytes");
    options.limits = limits_from_js(js);
    options.link = {number("linkBandwidth"), number("linkLatency")};
    options.reads = {read_depth_from_js(js.Get("readDepth")), read_piece_from_js(js.Get("readPieceBytes"))};
    engine_ = std::make_unique<Engine>(options);
  });
}

Engine& EngineBinding::engine() {
  if (!engine_) throw Error("internal", "the engine is closed");
  return *engine_;
}

Napi::Value EngineBinding::shape(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return shape_to_js(info.Env(), engine().config()); });
}

Napi::Value EngineBinding::plan(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return plan_to_js(info.Env(), engine().plan()); });
}

Napi::Value EngineBinding::formats(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    Napi::Object formats = Napi::Object::New(info.Env());
    formats.Set("experts", weight_format_to_js(info.Env(), engine().pack().experts.format));
    formats.Set("dense", weight_format_to_js(info.Env(), engine().pack().dense.format));
    return formats;
  });
}

Napi::Value EngineBinding::run_batch(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const auto js = info[0].As<Napi::Object>();
    const auto sequences = copy_of<int32_t>(js, "sequences");
    const auto contexts = copy_of<int32_t>(js, "contexts");
    const auto offsets = copy_of<int32_t>(js, "offsets");
    const auto input = copy_of<int32_t>(js, "tokens");
    const auto logit_rows = copy_of<int32_t>(js, "logitRows");
    const RoutingArrays routing(js.Get("routing"));
    const Batch batch{phase_of(js.Get("phase")),
                      sequences,
                      contexts,
                      offsets,
                      input,
                      logit_rows,
                      {},
                      {routing.experts, routing.alpha, routing.k},
                      wanted(js, "wholeLayers")};
    const bool hidden_states = wanted(js, "hiddenStates");
    const bool router_logits = wanted(js, "routerLogits");
    // Before anything is allocated for its answers.
    engine().check(batch);

    const PlanCopy plan(engine().plan().experts, info[1]);

    const SwitchConfig& config = engine().config();
    const auto [first_layer, layers] = engine().moe_layers(batch.phase);
    const size_t tokens = batch.tokens.size();
    const auto experts = static_cast<size_t>(config.num_experts);
    auto dispatch = Napi::Uint16Array::New(env, layers * tokens * std::max<size_t>(routing.k, 1));
    auto found = Napi::Uint8Array::New(env, layers * experts);
    BatchOutput output;
    output.dispatch = dispatch.Data();
    output.found = found.Data();
    Napi::Object result = Napi::Object::New(env);
    const auto floats = [&](const char* name, size_t count) {
      auto array = Napi::Float32Array::New(env, count);
      result.Set(name, array);
      return array.Data();
    };
    if (batch.phase == Phase::kDecode && !batch.logit_rows.empty()) {
      output.logits = floats("logits", batch.logit_rows.size() * static_cast<size_t>(config.vocab_size));
    }
    if (hidden_states) {
      output.hidden_states = floats("hiddenStates", tokens * static_cast<size_t>(config.d_model));
    }
    if (router_logits) output.router_logits = floats("routerLogits", layers * tokens * experts);

    const RunStats stats = engine().run(batch, plan.view(), output);

    auto numbers = Napi::Int32Array::New(env, layers);
    for (size_t i = 0; i < layers; ++i) numbers[i] = static_cast<int32_t>(first_layer + i);
    result.Set("layers", numbers);
    result.Set("dispatch", dispatch);
    result.Set("found", found);
    Napi::Object figures = Napi::Object::New(env);
    const auto set = [&](const char* name, uint64_t value) { figures.Set(name, static_cast<double>(value)); };
    set("needed", stats.needed);
    set("resident", stats.resident);
    set("prefetched", stats.prefetched);
    set("late", stats.late);
    set("onDemand", stats.on_demand);
    set("bytesMoved", stats.bytes_moved);
    set("prefetchesBegun", stats.prefetches_begun);
    set("prefetchesCancelled", stats.prefetches_cancelled);
    set("prefetchesWasted", stats.prefetches_wasted);
    set("stallNs", stats.stall_ns);
    set("diskReads", stats.disk_reads);
    set("diskBytes", stats.disk_bytes);
    set("overtakes", stats.overtakes);
    set("passNs", stats.pass_ns);
    result.Set("stats", figures);
    return result;
  });
}

void EngineBinding::release_contexts(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    engine().release_contexts(span_of<int32_t>(info[0], "ids"));
  });
}

void EngineBinding::release_sequences(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    engine().release_sequences(span_of<int32_t>(info[0], "ids"));
  });
}

Napi::Value EngineBinding::residency(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return residency_to_js(info.Env(), engine().store().snapshot()); });
}

Napi::Value EngineBinding::usage(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const Napi::Env env = info.Env();
    Engine& engine_ref = engine();
    Napi::Object usage = Napi::Object::New(env);
    const auto set = [](Napi::Object& object, const char* name, uint64_t value) {
      object.Set(name, static_cast<double>(value));
    };
    set(usage, "budgetBytes", engine_ref.memory().budget());
    set(usage, "usedBytes", engine_ref.memory().used());
    set(usage, "peakBytes", engine_ref.memory().peak());
    set(usage, "smallestBytes", engine_ref.plan().smallest());
    set(usage, "slots", engine_ref.store().slots());
    set(usage, "kvPages", engine_ref.cache().pages());
    set(usage, "kvPagesFree", engine_ref.cache().free_pages());
    Napi::Object host = Napi::Object::New(env);
    set(host, "budgetBytes", engine_ref.host().budget());
    set(host, "usedBytes", engine_ref.host().used());
    set(host, "experts", engine_ref.host().experts());
    usage.Set("host", host);
    usage.Set("disk", read_settings_to_js(env, engine_ref));
    return usage;
  });
}

void EngineBinding::set_budget(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    engine().set_budget(bytes_from_js(info[0], "bytes"));
  });
}

void EngineBinding::pin(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const std::vector<ExpertId> ids = expert_ids(engine().plan().experts, span_of<uint32_t>(info[0], "ids"));
    engine().store().pin(ids, info[1].ToBoolean().Value());
  });
}

void EngineBinding::check_integrity(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    engine().store().check_integrity();
  });
}

void EngineBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    engine_.reset();
  });
}

}  // namespace sida
