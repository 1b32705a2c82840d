#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "weights/expert_layout.h"

namespace sida {

/// Evictable experts by key, the largest first; of equal keys the least recently used one, or the most recently used.
/// A heap whose entries stay when their expert changes: the owner offers a changed expert again, and what is outdated
/// is dropped when it comes up. A search of all experts for each victim took milliseconds in a step of a large model.
class VictimQueue {
 public:
  struct Entry {
    double key;
    uint64_t last_use;
    ExpertId id;
  };

  explicit VictimQueue(size_t experts) : most_(kEntriesPerExpert * std::max<size_t>(experts, 1)) {
    entries_.reserve(most_);
  }

  void clear() { entries_.clear(); }
  /// Of equal keys: whether the most recently used expert goes first. Call it while the queue is empty or cleared next.
  void order_by(bool newest_first) { newest_first_ = newest_first; }
  /// Whether outdated entries have taken all room: clear it, and push every expert again.
  bool full() const { return entries_.size() == most_; }
  void push(const Entry& entry) {
    entries_.push_back(entry);
    std::push_heap(entries_.begin(), entries_.end(), order());
  }
  /// The first entry that is not outdated; null where there is none. Valid until the next call.
  template <typename IsCurrent>
  const Entry* first(IsCurrent is_current) {
    while (!entries_.empty()) {
      if (is_current(entries_.front())) return &entries_.front();
      std::pop_heap(entries_.begin(), entries_.end(), order());
      entries_.pop_back();
    }
    return nullptr;
  }

 private:
  static constexpr size_t kEntriesPerExpert = 4;

  /// Whether `a` is evicted after `b`. Ids decide last, so that the order does not depend on the heap.
  struct Later {
    bool newest_first;
    bool operator()(const Entry& a, const Entry& b) const {
      if (a.key != b.key) return a.key < b.key;
      if (a.last_use != b.last_use) return (a.last_use > b.last_use) != newest_first;
      return (a.id < b.id) != newest_first;
    }
  };
  Later order() const { return {newest_first_}; }

  size_t most_;
  std::vector<Entry> entries_;
  bool newest_first_ = false;
};

}  // namespace sida
