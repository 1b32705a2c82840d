#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "expert/eviction_rule.h"
#include "expert/need_calibration.h"
#include "expert/rehearsal.h"
#include "expert/residency_table.h"

namespace sida {

/// Plans which experts a pass loads ahead and evicts. Not thread-safe.
class PassPlanner {
 public:
  PassPlanner(const ExpertShape& shape, EvictionRule rule) : rule_(rule), shape_(shape), calibration_(shape) {}

  /// Corrects the tables that the last plan did not name, and lists the visits of all. Call it before plan().
  void read(const PassNeeds& needs);
  /// The plan of a pass, valid until the next call.
  ///
  /// With a forecast, an expert's key is its expected next use, in visits from now:
  /// Σ t · P(first needed at t) + P(not needed) · (the rule's estimate beyond the visits).
  /// With certain tables this is Belady's rule. A rehearsal of the visits finds the experts that are evicted before
  /// that use; only these make room for prefetches. Without a forecast, only the needs of this pass are protected.
  ///
  /// Loads are the experts whose load pays and that are not resident, or will have been evicted by then, nearest need
  /// first. Loads that have begun are listed too, because the store cancels a prefetch that the plan omits.
  ResidencyPlan plan(const PassNeeds& needs, const ResidencyTable& experts);

  /// Learns from the pass. `found` has a row for each MoE layer of the pass: not 0 where it needed the expert.
  void learn(const PassNeeds& needs, std::span<const uint8_t> found);

  double table_weight() const { return calibration_.table_weight(); }

 private:
  void add(const std::vector<TableNeeds>& tables);
  ResidencyPlan plan_ahead(const PassNeeds& needs, const ResidencyTable& experts);
  ResidencyPlan plan_this_pass(const PassNeeds& needs, const ResidencyTable& experts);
  void expect_use();

  struct Read {
    PlannedTable planned;
    uint64_t plan;  ///< the last one that read it
  };

  EvictionRule rule_;
  ExpertShape shape_;
  NeedCalibration calibration_;
  Rehearsal rehearsal_;
  std::unordered_map<uint64_t, Read> tables_;
  uint64_t plans_ = 0;
  /// In order of time: the visits of the pass, then the visits of later passes.
  std::vector<PlannedVisit> visits_;
  size_t pass_visits_ = 0;
  size_t batch_visits_ = 0;
  /// Visits that experts are prefetched for: the pass, its batch and the next batch.
  size_t prefetch_visits_ = 0;
  size_t layers_ = 0;
  EvictionRanks ranks_;
  /// (entries of the visits to prefetch for), expected next use after the visit.
  std::vector<double> after_visit_;
  std::vector<ExpertId> loads_;
};

}  // namespace sida
