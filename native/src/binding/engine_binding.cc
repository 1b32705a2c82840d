#include "binding/engine_binding.h"

#include <algorithm>

#include "binding/batch_convert.h"
#include "binding/convert.h"
#include "binding/peer_convert.h"
#include "binding/residency_convert.h"

namespace sida {
namespace {

/// 0 where the option is absent.
size_t read_depth_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return 0;
  const uint64_t depth = bytes_from_js(value, "readDepth");
  if (depth <= kMaxReadDepth) return depth;
  throw Error("invalid_request", "expected \"readDepth\" to be at most " + std::to_string(kMaxReadDepth) + ", found " +
                                     std::to_string(depth));
}

uint64_t read_chunk_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return 0;
  const uint64_t bytes = bytes_from_js(value, "readChunkBytes");
  if (bytes % 4096 == 0) return bytes;
  throw Error("invalid_request",
              "expected \"readChunkBytes\" to be a multiple of 4096, found " + std::to_string(bytes));
}

/// How the pack's experts are read.
Napi::Object read_settings_to_js(Napi::Env env, Engine& engine) {
  const ReadSettings& settings = engine.store().read_settings();
  Napi::Object disk = Napi::Object::New(env);
  disk.Set("direct", engine.disk().direct());
  disk.Set("depth", static_cast<double>(settings.depth));
  disk.Set("chunkBytes", static_cast<double>(settings.chunk_bytes));
  disk.Set("bytesPerSecond", settings.bytes_per_second);
  return disk;
}

int32_t id_of(const Napi::Value& value) { return value.ToNumber().Int32Value(); }

/// No sequence has 0 tokens, so the engine refuses what is no count.
size_t tokens_of(const Napi::Value& value) {
  return static_cast<size_t>(std::max<int64_t>(0, value.ToNumber().Int64Value()));
}

}  // namespace

Napi::Function EngineBinding::define(Napi::Env env) {
  return DefineClass(
      env, "Engine",
      {InstanceAccessor<&EngineBinding::shape>("shape"), InstanceAccessor<&EngineBinding::plan>("plan"),
       InstanceAccessor<&EngineBinding::formats>("formats"),
       InstanceAccessor<&EngineBinding::table_weight>("tableWeight"),
       InstanceMethod<&EngineBinding::run_batch>("runBatch"),
       InstanceMethod<&EngineBinding::release_sequences>("releaseSequences"),
       InstanceMethod<&EngineBinding::fork_sequence>("forkSequence"),
       InstanceMethod<&EngineBinding::keep_pages>("keepPages"),
       InstanceMethod<&EngineBinding::share_pages>("sharePages"),
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
    options.reads = {read_depth_from_js(js.Get("readDepth")), read_chunk_from_js(js.Get("readChunkBytes"))};
    options.peers = peers_from_js(js);
    if (!js.Get("cpuExperts").IsUndefined()) options.cpu_experts.on = js.Get("cpuExperts").ToBoolean().Value();
    if (!js.Get("policy").IsUndefined()) options.eviction = eviction_rule_from_js(js.Get("policy"));
    engine_ = std::make_unique<Engine>(options);
  });
}

Engine& EngineBinding::engine() {
  if (!engine_) throw Error("internal", "the engine is closed");
  return *engine_;
}

Napi::Value EngineBinding::shape(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return shape_to_js(info.Env(), engine().spec()); });
}

Napi::Value EngineBinding::plan(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return plan_to_js(info.Env(), engine().plan()); });
}

Napi::Value EngineBinding::formats(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    Napi::Object formats = Napi::Object::New(info.Env());
    formats.Set("experts", weight_format_to_js(info.Env(), engine().pack().formats.all_experts));
    formats.Set("dense", weight_format_to_js(info.Env(), engine().pack().formats.all_dense));
    return formats;
  });
}

Napi::Value EngineBinding::table_weight(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), engine().planner().table_weight()); });
}

Napi::Value EngineBinding::run_batch(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const BatchArrays arrays(info[0].As<Napi::Object>());
    const Batch batch = arrays.view();
    // Checked before memory is allocated for the results.
    engine().check(batch);
    const PlanCopy plan(info[1], engine().plan().experts);
    BatchAnswers answers(env, arrays, engine().spec());
    const RunStats stats = engine().run(batch, plan.view(), answers.output());
    return answers.result(stats);
  });
}

void EngineBinding::release_sequences(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().release_sequences(span_of<int32_t>(info[0], "ids")); });
}

void EngineBinding::fork_sequence(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().fork_sequence(id_of(info[0]), id_of(info[1]), tokens_of(info[2])); });
}

void EngineBinding::keep_pages(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().keep_pages(id_of(info[0]), id_of(info[1]), tokens_of(info[2])); });
}

void EngineBinding::share_pages(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().share_pages(id_of(info[0]), id_of(info[1]), tokens_of(info[2])); });
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
    uint64_t page_bytes = 0;
    Napi::Array windows = Napi::Array::New(env);
    const std::vector<KvGroup>& groups = engine_ref.cache().groups();
    for (size_t group = 0; group < groups.size(); ++group) {
      if (!groups[group].windowed() && !groups[group].recurrent) {
        page_bytes = groups[group].page_bytes;
        continue;
      }
      Napi::Object entry = Napi::Object::New(env);
      set(entry, "window", groups[group].recurrent ? 0 : groups[group].window);
      set(entry, "pages", groups[group].pages);
      set(entry, "pagesFree", groups[group].pages - engine_ref.cache().pages_in_use(group));
      set(entry, "pageBytes", groups[group].page_bytes);
      windows.Set(windows.Length(), entry);
    }
    set(usage, "kvPageBytes", page_bytes);
    usage.Set("kvWindows", windows);
    Napi::Object host = Napi::Object::New(env);
    set(host, "budgetBytes", engine_ref.host().budget() + engine_ref.host_experts_bytes());
    set(host, "usedBytes", engine_ref.host().used() + engine_ref.host_experts_bytes());
    set(host, "experts", engine_ref.host().experts());
    usage.Set("host", host);
    usage.Set("disk", read_settings_to_js(env, engine_ref));
    usage.Set("peers", peers_to_js(env, engine_ref.peers().stats()));
    return usage;
  });
}

void EngineBinding::set_budget(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().set_budget(bytes_from_js(info[0], "bytes")); });
}

void EngineBinding::pin(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const std::vector<ExpertId> ids = expert_ids_from_js(span_of<uint32_t>(info[0], "ids"), engine().plan().experts);
    engine().store().pin(ids, info[1].ToBoolean().Value());
  });
}

void EngineBinding::check_integrity(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine().check_integrity(); });
}

void EngineBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { engine_.reset(); });
}

}  // namespace sida
