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
  if (js.Get("leastForeseen").IsNumber()) least_foreseen_ = js.Get("leastForeseen").ToNumber().DoubleValue();
}

Napi::Object residency_to_js(Napi::Env env, const ResidencySnapshot& snapshot, const Napi::Value& into) {
  const bool reuse = into.IsObject();
  Napi::Object js = reuse ? into.As<Napi::Object>() : Napi::Object::New(env);
  const auto fill = [&]<typename T>(const char* name, const std::vector<T>& values) {
    using Array = Napi::TypedArrayOf<T>;
    if (!reuse) js.Set(name, Array::New(env, values.size()));
    if (span_of<T>(js.Get(name), name).size() != values.size()) {
      throw Error("invalid_request", std::string(name) + " is of another number of experts");
    }
    std::copy(values.begin(), values.end(), js.Get(name).As<Array>().Data());
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
