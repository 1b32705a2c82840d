#include "binding/residency_convert.h"

#include <algorithm>
#include <string>

#include "binding/batch_convert.h"
#include "binding/convert.h"
#include "core/error.h"

namespace sida {

std::vector<ExpertId> expert_ids_from_js(std::span<const uint32_t> ids, size_t experts) {
  for (const uint32_t id : ids) {
    if (id >= experts) {
      throw Error("invalid_request", "expert " + std::to_string(id) + " of " + std::to_string(experts));
    }
  }
  return {ids.begin(), ids.end()};
}

namespace {

template <typename T>
void set_array(Napi::Object& js, const char* name, std::span<const T> values) {
  auto array = Napi::TypedArrayOf<T>::New(js.Env(), values.size());
  std::copy(values.begin(), values.end(), array.Data());
  js.Set(name, array);
}

Napi::Array array_from_js(const Napi::Value& value, const char* name) {
  if (value.IsArray()) return value.As<Napi::Array>();
  throw Error("invalid_request", std::string("expected \"") + name + "\" to be an array");
}

std::vector<TableNeeds> tables_from_js(const Napi::Value& value, const char* name) {
  const Napi::Array js = array_from_js(value, name);
  std::vector<TableNeeds> tables(js.Length());
  for (uint32_t i = 0; i < tables.size(); ++i) {
    const Napi::Value each = js.Get(i);
    if (!each.IsObject()) throw Error("invalid_request", std::string("expected objects in \"") + name + '"');
    const auto table = each.As<Napi::Object>();
    tables[i] = {.id = static_cast<uint64_t>(table.Get("id").ToNumber().Int64Value()),
                 .layer = table.Get("layer").ToNumber().Uint32Value(),
                 .need = span_of<float>(table.Get("need"), "need")};
  }
  return tables;
}

}  // namespace

PassNeeds needs_from_js(const Napi::Object& js) {
  const auto number = [&](const char* name) { return js.Get(name).ToNumber().DoubleValue(); };
  PassNeeds needs{.own = tables_from_js(js.Get("own"), "own"),
                  .behind = tables_from_js(js.Get("behind"), "behind"),
                  .upcoming = {},
                  .control = js.Get("control").ToBoolean(),
                  .link = {.busy = number("linkBusy"), .stay = number("slotStay")}};
  const Napi::Array upcoming = array_from_js(js.Get("upcoming"), "upcoming");
  for (uint32_t i = 0; i < upcoming.Length(); ++i)
    needs.upcoming.push_back(tables_from_js(upcoming.Get(i), "upcoming"));
  return needs;
}

PlanCopy::PlanCopy(const Napi::Value& value, size_t experts) {
  if (!value.IsObject()) return;
  const auto js = value.As<Napi::Object>();
  if (js.Has("own")) {
    plan_ = needs_from_js(js);
    return;
  }
  keys_ = copy_of<double>(js, "keys");
  keys_after_ = copy_of<double>(js, "keysAfter");
  if (!js.Get("keysUnneeded").IsUndefined()) keys_unneeded_ = copy_of<double>(js, "keysUnneeded");
  loads_ = expert_ids_from_js(copy_of<uint32_t>(js, "loads"), experts);
  ResidencyPlan plan{.keys = keys_, .keys_after = keys_after_, .loads = loads_, .keys_unneeded = keys_unneeded_};
  plan.expendable = js.Get("expendable").ToNumber().DoubleValue();
  plan.newest_first = js.Get("newestFirst").ToBoolean().Value();
  plan.patient = js.Get("patient").ToBoolean().Value();
  if (js.Get("leastForeseen").IsNumber()) plan.least_foreseen = js.Get("leastForeseen").ToNumber().DoubleValue();
  plan_ = plan;
}

Napi::Object plan_to_js(Napi::Env env, const ResidencyPlan& plan) {
  Napi::Object js = Napi::Object::New(env);
  set_array(js, "keys", plan.keys);
  set_array(js, "keysAfter", plan.keys_after);
  set_array(js, "keysUnneeded", plan.keys_unneeded);
  set_array(js, "loads", plan.loads);
  js.Set("expendable", plan.expendable);
  js.Set("newestFirst", plan.newest_first);
  js.Set("patient", plan.patient);
  js.Set("leastForeseen", plan.least_foreseen);
  return js;
}

EvictionRule eviction_rule_from_js(const Napi::Value& value) {
  const std::string name = value.ToString().Utf8Value();
  const auto found = std::find(kEvictionRules.begin(), kEvictionRules.end(), name);
  if (found == kEvictionRules.end()) throw Error("invalid_request", "there is no eviction policy \"" + name + "\"");
  return static_cast<EvictionRule>(found - kEvictionRules.begin());
}

Napi::Object residency_to_js(Napi::Env env, const ResidencySnapshot& snapshot) {
  Napi::Object js = Napi::Object::New(env);
  const auto fill = [&]<typename T>(const char* name, const std::vector<T>& values) {
    set_array(js, name, std::span<const T>(values));
  };
  fill("state", snapshot.state);
  fill("pinned", snapshot.pinned);
  fill("uses", snapshot.uses);
  fill("loadedAt", snapshot.loaded_at);
  fill("turns", snapshot.turns);
  fill("lastTurn", snapshot.last_turn);
  fill("useRate", snapshot.use_rate);
  fill("useRateNeeded", snapshot.use_rate_needed);
  fill("useRateUnneeded", snapshot.use_rate_unneeded);
  js.Set("slots", snapshot.slots);
  js.Set("freeSlots", snapshot.free_slots);
  js.Set("visits", static_cast<double>(snapshot.visits));
  return js;
}

}  // namespace sida
