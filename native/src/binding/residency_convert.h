#pragma once

#include <napi.h>

#include <span>
#include <vector>

#include "expert/residency_table.h"

namespace sida {

/// Flat ids from JavaScript. Throws invalid_request where one is not below `experts`.
std::vector<ExpertId> expert_ids_from_js(std::span<const uint32_t> ids, size_t experts);

/// A copy of a residency plan from JavaScript, which may change its arrays meanwhile. Without one, experts are
/// fetched on
/// demand and the least recently used is evicted.
class PlanCopy {
 public:
  /// Throws invalid_request naming a field that is not of its type.
  PlanCopy(const Napi::Value& value, size_t experts);

  ResidencyPlan view() const {
    return {keys_, keys_after_, loads_, expendable_, newest_first_, keys_unneeded_, patient_, least_foreseen_};
  }

 private:
  std::vector<double> keys_;
  std::vector<double> keys_after_;
  std::vector<double> keys_unneeded_;
  std::vector<ExpertId> loads_;
  double expendable_ = 0;
  bool newest_first_ = false;
  bool patient_ = false;
  double least_foreseen_ = kLeastForeseenChance;
};

/// `into`: an earlier result of as many experts, which is overwritten and returned; anything else is ignored.
Napi::Object residency_to_js(Napi::Env env, const ResidencySnapshot& snapshot, const Napi::Value& into);

}  // namespace sida
