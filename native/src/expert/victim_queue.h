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
/// Offers are sorted in when a victim is asked for: most layers offer many experts and need no victim.
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

  void clear() {
    entries_.clear();
    sorted_ = 0;
  }
  /// Of equal keys: whether the most recently used expert goes first. Call it while the queue is empty or cleared next.
  void order_by(bool newest_first) { newest_first_ = newest_first; }
  bool newest_first() const { return newest_first_; }
  /// Whether outdated entries have taken all room: clear it, and push every expert again.
  bool full() const { return entries_.size() == most_; }
  void push(const Entry& entry) { entries_.push_back(entry); }
  /// The first entry that is not outdated; null where there is none. Valid until the next call.
  template <typename IsCurrent>
  const Entry* first(IsCurrent is_current) {
    sort();
    while (!entries_.empty()) {
      if (is_current(entries_.front())) return &entries_.front();
      std::pop_heap(entries_.begin(), entries_.end(), order());
      entries_.pop_back();
      --sorted_;
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

  void sort() {
    // A heap of n entries takes about as long to make as n / 4 entries take to push.
    if (entries_.size() - sorted_ > entries_.size() / 4) {
      std::make_heap(entries_.begin(), entries_.end(), order());
      sorted_ = entries_.size();
    }
    while (sorted_ < entries_.size()) {
      std::push_heap(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(++sorted_), order());
    }
  }

  size_t most_;
  std::vector<Entry> entries_;
  size_t sorted_ = 0;  ///< entries at the beginning that are a heap
  bool newest_first_ = false;
};

}  // namespace sida
