#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "expert/need_calibration.h"
#include "expert/residency_table.h"

namespace sida {

/// Rehearses the coming visits under Belady's rule (MIN; Belady 1966). The rehearsal finds which experts will be
/// evicted, and from when on each may be evicted. Prefetches that evict only those experts move the same bytes as
/// Belady's rule, as early as it allows ("do no harm": Cao et al., "A Study of Integrated Prefetching and Caching
/// Strategies", 1995).
///
/// The rehearsal is a plan and does not replace the store. Its keys change after every visit, while the store's keys
/// hold for a whole pass. It may evict an expert within the visit that used it.
class Rehearsal {
 public:
  struct Input {
    std::span<const PlannedVisit> visits;
    std::span<const double> after_visit;  ///< (entries of the visits), expected next use after the layer's visit
    std::span<const double> next_use;     ///< (experts), expected next use from now
    size_t pass_visits;                   ///< how many of the visits belong to the pass
    /// How many belong to the pass and the later passes of its batch. A new round of the layers begins after them.
    size_t batch_visits;
    size_t layers;  ///< MoE layers in a round
    LinkState link;
  };

  /// Replaces the results of the run before.
  void run(const Input& input, const ResidencyTable& experts);

  /// In the order of their first load. Loads already under way are listed at the visit that needs them.
  const std::vector<ExpertId>& loads() const { return loads_; }
  /// The experts that it evicts before the first use after the pass, each once.
  const std::vector<ExpertId>& gone() const { return gone_; }
  /// The expert is evicted before its next use, so that it may be evicted at once.
  bool goes_now(ExpertId id) const { return experts_[id].goes_now; }
  /// The expert is evicted between its use by the pass, if there is one, and the next use.
  bool goes_after_use(ExpertId id) const {
    // The expert that goes now may already have been used by the pass.
    return experts_[id].goes_after_use || (experts_[id].goes_now && !experts_[id].used_by_pass);
  }

 private:
  static constexpr int32_t kUnused = -1;
  static constexpr double kUnranked = -1;

  struct Expert {
    double next_use;  ///< expected, as the rehearsal goes on
    double rank;      ///< for eviction; kUnranked while the expert is in `unranked_`
    int32_t used_at;  ///< the visit that last used it
    bool held : 1;    ///< on the device, or loading
    bool pinned : 1;  ///< on the device and never evicted
    bool listed : 1;  ///< in `loads_`
    bool used_by_pass : 1;
    bool goes_now : 1;
    bool goes_after_use : 1;
  };
  /// In visits from now. The first round begins after the batch.
  struct Rounds {
    double batch, layers, visits;
    /// The beginning of the round in which `time` lies.
    double of(double time) const;
  };
  struct Ranked {
    double rank;
    ExpertId id;
    /// The heap's first entry has the largest rank, and the smallest id among equal ones.
    bool operator<(const Ranked& other) const { return rank != other.rank ? rank < other.rank : id > other.id; }
  };

  void visit(const Input& input, const ResidencyTable& experts, size_t time, size_t first_entry);
  /// Makes room for the expert. False where its load does not pay.
  bool make_room(const Input& input, size_t time, double chance);
  void list(ExpertId id);
  double rank(const Expert& expert) const;
  void rank_again(ExpertId id);
  /// The held expert with the largest rank. Null where there is none.
  Expert* next_victim();
  /// Moves the farthest rounds of `unranked_` to the heap.
  void fill_heap();

  Rounds rounds_{};
  std::vector<Expert> experts_;
  std::vector<ExpertId> loads_;
  std::vector<ExpertId> gone_;
  /// An entry for each rank that an expert has had while its next use was at `heap_from_` or later.
  std::vector<Ranked> heap_;
  /// The beginning of a round, or minus infinity. Few experts are ever near eviction, so the others stay unranked.
  double heap_from_ = 0;
  std::vector<ExpertId> unranked_;  ///< held experts that are used before `heap_from_`, and some others
  size_t free_slots_ = 0;
};

}  // namespace sida
