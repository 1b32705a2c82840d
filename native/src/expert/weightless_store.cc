#include "expert/weightless_store.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

/// Adds the time that it lives.
class Timed {
 public:
  explicit Timed(uint64_t& ns) : ns_(ns), begin_(std::chrono::steady_clock::now()) {}
  ~Timed() {
    const auto took = std::chrono::steady_clock::now() - begin_;
    ns_ += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  uint64_t& ns_;
  std::chrono::steady_clock::time_point begin_;
};

ExpertShape shape_with(std::span<const size_t> layer_experts) {
  ExpertShape shape;
  shape.set_experts(layer_experts);
  return shape;
}

}  // namespace

WeightlessStore::WeightlessStore(std::span<const size_t> layer_experts, size_t slots, size_t loads_in_flight,
                                 EvictionRule rule)
    : shape_(shape_with(layer_experts)),
      residency_(shape_.experts()),
      planner_(shape_, rule),
      loads_in_flight_(loads_in_flight) {
  for (uint32_t slot = 0; slot < std::min(slots, experts()); ++slot) residency_.add_slot(slot);
}

void WeightlessStore::check_ids(std::span<const ExpertId> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= experts()) {
      throw Error("invalid_request", "expert " + std::to_string(ids[i]) + " of " + std::to_string(experts()));
    }
    if (i > 0 && ids[i] <= ids[i - 1]) {
      throw Error("invalid_request", "expert " + std::to_string(ids[i]) + " follows expert " +
                                         std::to_string(ids[i - 1]) + ": expected an ascending order");
    }
  }
}

void WeightlessStore::check_layer(std::span<const ExpertId> ids) const {
  if (ids.empty() || shape_.place(ids.front()).layer == shape_.place(ids.back()).layer) return;
  throw Error("invalid_request", "experts " + std::to_string(ids.front()) + " and " + std::to_string(ids.back()) +
                                     " are of several layers");
}

void WeightlessStore::begin_call() {
  loads_.demanded.clear();
  loads_.planned.clear();
}

void WeightlessStore::load(SlotLoad load, std::vector<ExpertId>& kind) {
  residency_.finish_load(load.id, true);
  kind.push_back(load.id);
}

void WeightlessStore::load_planned() {
  // Each has ended before the next one begins, so that no number of them is too many.
  while (const auto planned = residency_.next_prefetch(1)) load(*planned, loads_.planned);
}

ResidencyPlan WeightlessStore::plan(const PassNeeds& needs) {
  check_needs(needs, shape_, shape_.layers);
  const Timed timed(plan_ns_);
  planner_.read(needs);
  return planner_.plan(needs, residency_);
}

void WeightlessStore::learn(const PassNeeds& needs, std::span<const uint8_t> found) {
  check_needs(needs, shape_, found.size() / shape_.experts_per_layer);
  const Timed timed(plan_ns_);
  planner_.learn(needs, found);
}

const WeightlessStore::Loads& WeightlessStore::start_pass(const ResidencyPlan& plan) {
  begin_call();
  residency_.start_pass(plan);
  load_planned();
  return loads_;
}

const WeightlessStore::Loads& WeightlessStore::visit(std::span<const ExpertId> ids) {
  check_ids(ids);
  check_layer(ids);
  begin_call();
  residency_.begin_visit();
  for (const ExpertId id : ids) residency_.need(id);
  if (!ids.empty()) {
    const size_t layer = shape_.place(ids[0]).layer;
    residency_.layer_runs(shape_.first_id(layer), shape_.first_id(layer + 1));
  }
  do {
    residency_.release_held();
    while (const auto missing = residency_.next_demand(loads_in_flight_)) load(*missing, loads_.demanded);
    load_planned();
  } while (residency_.hand_out());
  const size_t missing = residency_.missing();
  residency_.end_visit();
  if (missing > 0) throw Error("internal", "no slot can be freed for a layer. This is a bug.");
  return loads_;
}

const WeightlessStore::Loads& WeightlessStore::pin(std::span<const ExpertId> ids, bool pinned) {
  for (const ExpertId id : ids) check_ids({&id, 1});
  begin_call();
  if (!pinned) {
    residency_.unpin(ids);
    return loads_;
  }
  const std::vector<ExpertId> fresh = residency_.pin(ids);
  residency_.forget_planned_loads();
  for (const ExpertId id : fresh) {
    if (residency_.record(id).state != ResidencyState::kAbsent) continue;
    load(residency_.demand(id), loads_.planned);
    residency_.release(id);
  }
  return loads_;
}

}  // namespace sida
