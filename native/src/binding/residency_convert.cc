#include "binding/residency_convert.h"

#include <algorithm>
#include <string>

#include "binding/batch_convert.h"
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

PlanCopy::PlanCopy(const Napi::Value& value, size_t experts) {
  if (!value.IsObject()) return;
  const auto js = value.As<Napi::Object>();
  keys_ = copy_of<double>(js, "keys");
  keys_after_ = copy_of<double>(js, "keysAfter");
  if (!js.Get("keysUnneeded").IsUndefined()) keys_unneeded_ = copy_of<double>(js, "keysUnneeded");
  loads_ = expert_ids_from_js(copy_of<uint32_t>(js, "loads"), experts);
  expendable_ = js.Get("expendable").ToNumber().DoubleValue();
  newest_first_ = js.Get("newestFirst").ToBoolean().Value();
  patient_ = js.Get("patient").ToBoolean().Value();
}

Napi::Object residency_to_js(Napi::Env env, const ResidencySnapshot& snapshot) {
  Napi::Object js = Napi::Object::New(env);
  const auto bytes = [&](const char* name, const std::vector<uint8_t>& values) {
    auto array = Napi::Uint8Array::New(env, values.size());
    std::copy(values.begin(), values.end(), array.Data());
    js.Set(name, array);
  };
  const auto doubles = [&](const char* name, const std::vector<double>& values) {
    auto array = Napi::Float64Array::New(env, values.size());
    std::copy(values.begin(), values.end(), array.Data());
    js.Set(name, array);
  };
  bytes("state", snapshot.state);
  bytes("pinned", snapshot.pinned);
  doubles("uses", snapshot.uses);
  doubles("loadedAt", snapshot.loaded_at);
  doubles("turns", snapshot.turns);
  doubles("lastTurn", snapshot.last_turn);
  doubles("useRate", snapshot.use_rate);
  doubles("useRateNeeded", snapshot.use_rate_needed);
  doubles("useRateUnneeded", snapshot.use_rate_unneeded);
  js.Set("slots", snapshot.slots);
  js.Set("freeSlots", snapshot.free_slots);
  js.Set("visits", static_cast<double>(snapshot.visits));
  return js;
}

}  // namespace sida
