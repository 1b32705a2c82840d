#pragma once

#include <napi.h>

#include <span>
#include <vector>

#include "engine/engine.h"

namespace sida {

/// Flat ids from JavaScript. Throws invalid_request where one is not below `experts`.
std::vector<ExpertId> expert_ids_from_js(std::span<const uint32_t> ids, size_t experts);

/// PassNeeds of engine-types.ts: its tables stay JavaScript's, which neither frees nor changes them during a call.
PassNeeds needs_from_js(const Napi::Object& js);

/// ResidencyPlan or PassNeeds of engine-types.ts. A plan is copied. Without either, experts are fetched on demand and
/// the least recently used is evicted.
class PlanCopy {
 public:
  /// Throws invalid_request naming a field that is not of its type.
  PlanCopy(const Napi::Value& value, size_t experts);

  PlanCopy(const PlanCopy&) = delete;
  PlanCopy& operator=(const PlanCopy&) = delete;

  const PassPlan& view() const { return plan_; }

 private:
  std::vector<double> keys_;
  std::vector<double> keys_after_;
  std::vector<double> keys_unneeded_;
  std::vector<ExpertId> loads_;
  PassPlan plan_;  ///< refers to the others
};

Napi::Object plan_to_js(Napi::Env env, const ResidencyPlan& plan);

/// The rule of a name of EVICTION_RULES. Throws invalid_request.
EvictionRule eviction_rule_from_js(const Napi::Value& value);

Napi::Object residency_to_js(Napi::Env env, const ResidencySnapshot& snapshot);

}  // namespace sida
