#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/batch.h"
#include "kv/kv_cache.h"
#include "kv/sequence_span.h"
#include "spec/spec.h"

namespace sida {

/// The live sequences of all stacks and the pages that they own.
class Sequences {
 public:
  Sequences(const ModelSpec& spec, KvCache& cache) : spec_(spec), cache_(cache) {}

  /// Throws invalid_request where the sequences or parents of `batch` cannot take its tokens, or have no recurrent
  /// state any more.
  void check(const Batch& batch) const;
  /// Unknown ids are ignored.
  void release(std::span<const int32_t> ids);
  /// Begins sequence `to` with the first `tokens` tokens of `from`; both own the pages. Throws invalid_request where
  /// `from` does not have them, or gave up pages that `to` would see. A recurrent state is behind all tokens.
  void fork(int32_t from, int32_t to, size_t tokens);
  /// As fork(), without the recurrent state: `to` owns the pages, and other sequences may share them.
  void keep_pages(int32_t from, int32_t to, size_t tokens);
  /// Frees the first pages of `id` and gives it those of `from`. Both must hold the same `tokens` tokens, which are
  /// whole pages. Throws invalid_request where they cannot.
  void share(int32_t id, int32_t from, size_t tokens);
  size_t live() const { return sequences_.size(); }
  /// Throws internal unless each page is free or has as many owners as sequences name it, and each sequence has the
  /// pages that its next token sees.
  void check_integrity() const;

 private:
  friend class SequencePass;

  struct Sequence {
    size_t stack = 0;
    KvPages pages;
    size_t length = 0;
    size_t padding = 0;  ///< of `length`, tokens without a position
    /// Whether its recurrent state is behind its tokens. Not so where it keeps pages alone, or where a pass failed that
    /// had changed the state.
    bool has_state = true;
    /// Pages of the sequence that it cross-attends to. Owned by both, so that either may end first.
    KvPages parent_pages;
    size_t parent_keys = 0;
  };

  /// Of the running pass. Kept, so that a pass allocates nothing once they have grown.
  struct PassLists {
    std::vector<Sequence*> touched;
    std::vector<int32_t> begun;
    std::vector<SequenceSpan> spans;
    std::vector<size_t> padding;  ///< of each span's new tokens

    void clear() {
      touched.clear();
      begun.clear();
      spans.clear();
      padding.clear();
    }
  };

  Sequence begin(size_t stack, int32_t parent);
  /// Throws invalid_request where the first `tokens` tokens of `id` cannot be continued.
  Sequence& with_pages(int32_t id, size_t tokens);
  /// Adds sequence `to`, which owns the pages of the first `tokens` tokens too.
  Sequence& add_copy(const Sequence& parent, int32_t to, size_t tokens);
  void release(Sequence& sequence);

  const ModelSpec& spec_;
  KvCache& cache_;
  std::unordered_map<int32_t, Sequence> sequences_;
  PassLists pass_;
};

/// A pass's changes to the sequences: pages for the new tokens, and the spans of all sequences. Unless keep() is
/// called, the destructor undoes the changes; recurrent states are lost then. One at a time.
class SequencePass {
 public:
  /// `batch` has been checked. Throws cannot_run when the KV cache is full.
  SequencePass(Sequences& sequences, const Batch& batch);
  ~SequencePass();
  SequencePass(const SequencePass&) = delete;
  SequencePass& operator=(const SequencePass&) = delete;

  std::span<const SequenceSpan> spans() const { return pass_.spans; }
  /// Makes the new tokens part of their sequences, after they have been computed, and gives up the pages that no later
  /// token sees.
  void keep();

 private:
  void undo();

  Sequences& sequences_;
  Sequences::PassLists& pass_;
  bool begun_ = false;  ///< all sequences have their pages
};

}  // namespace sida
