#include "binding/weightless_store_binding.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "binding/batch_convert.h"
#include "binding/convert.h"
#include "binding/residency_convert.h"

namespace sida {
namespace {

constexpr size_t kMostExperts = 1 << 24;

Napi::Uint32Array ids_to_js(Napi::Env env, const std::vector<ExpertId>& ids) {
  auto array = Napi::Uint32Array::New(env, ids.size());
  std::copy(ids.begin(), ids.end(), array.Data());
  return array;
}

std::vector<size_t> layer_experts_from_js(const Napi::Object& js) {
  const auto counts = copy_of<uint32_t>(js, "layerExperts");
  const bool any = !counts.empty() && std::ranges::find(counts, 0u) == counts.end();
  if (any && std::accumulate(counts.begin(), counts.end(), size_t{0}) <= kMostExperts) {
    return {counts.begin(), counts.end()};
  }
  throw Error("invalid_request", "expected \"layerExperts\" to have at least 1 expert a layer, and at most " +
                                     std::to_string(kMostExperts) + " of all");
}

/// null: nothing was loaded, as most visits find.
Napi::Value loads_to_js(Napi::Env env, const WeightlessStore::Loads& loads) {
  if (loads.demanded.empty() && loads.planned.empty()) return env.Null();
  Napi::Object js = Napi::Object::New(env);
  js.Set("demanded", ids_to_js(env, loads.demanded));
  js.Set("planned", ids_to_js(env, loads.planned));
  return js;
}

}  // namespace

Napi::Function WeightlessStoreBinding::define(Napi::Env env) {
  using Self = WeightlessStoreBinding;
  return DefineClass(env, "WeightlessStore",
                     {InstanceAccessor<&Self::table_weight>("tableWeight"), InstanceMethod<&Self::plan>("plan"),
                      InstanceMethod<&Self::learn>("learn"), InstanceMethod<&Self::take_plan_ns>("takePlanNs"),
                      InstanceMethod<&Self::start_pass>("startPass"), InstanceMethod<&Self::visit>("visit"),
                      InstanceMethod<&Self::pin>("pin"), InstanceMethod<&Self::residency>("residency"),
                      InstanceMethod<&Self::check_integrity>("checkIntegrity")});
}

WeightlessStoreBinding::WeightlessStoreBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto js = info[0].As<Napi::Object>();
    store_.emplace(
        layer_experts_from_js(js), positive_from_js(js, "slots", kMostExperts),
        positive_from_js(js, "loadsInFlight", kMostExperts),
        js.Get("policy").IsUndefined() ? EvictionRule::kFarthestNextUse : eviction_rule_from_js(js.Get("policy")));
  });
}

Napi::Value WeightlessStoreBinding::table_weight(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), store_->table_weight()); });
}

Napi::Value WeightlessStoreBinding::plan(const Napi::CallbackInfo& info) {
  return guarded(info.Env(),
                 [&] { return plan_to_js(info.Env(), store_->plan(needs_from_js(info[0].As<Napi::Object>()))); });
}

void WeightlessStoreBinding::learn(const Napi::CallbackInfo& info) {
  guarded(info.Env(),
          [&] { store_->learn(needs_from_js(info[0].As<Napi::Object>()), span_of<uint8_t>(info[1], "found")); });
}

Napi::Value WeightlessStoreBinding::take_plan_ns(const Napi::CallbackInfo& info) {
  return guarded(info.Env(),
                 [&] { return Napi::Number::New(info.Env(), static_cast<double>(store_->take_plan_ns())); });
}

Napi::Value WeightlessStoreBinding::start_pass(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const PlanCopy copy(info[0], store_->experts());
    const PassPlan& given = copy.view();
    const auto* needs = std::get_if<PassNeeds>(&given);
    return loads_to_js(info.Env(),
                       store_->start_pass(needs != nullptr ? store_->plan(*needs) : std::get<ResidencyPlan>(given)));
  });
}

Napi::Value WeightlessStoreBinding::visit(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return loads_to_js(info.Env(), store_->visit(span_of<uint32_t>(info[0], "ids"))); });
}

Napi::Value WeightlessStoreBinding::pin(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const bool pinned = info[1].ToBoolean().Value();
    return loads_to_js(info.Env(), store_->pin(span_of<uint32_t>(info[0], "ids"), pinned));
  });
}

Napi::Value WeightlessStoreBinding::residency(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return residency_to_js(info.Env(), store_->snapshot()); });
}

void WeightlessStoreBinding::check_integrity(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { store_->check_integrity(); });
}

}  // namespace sida
