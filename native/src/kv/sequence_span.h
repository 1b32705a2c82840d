#pragma once

#include <cstddef>

#include "kv/page_pool.h"

namespace sida {

/// One sequence's part of a ragged pass: rows [begin, begin + count) of the activations.
struct SequenceSpan {
  size_t begin;
  size_t count;
  size_t past;  ///< tokens before these in the sequence
  /// Pages of the sequence's own keys and values.
  const KvPages* pages;
  /// Pages and keys of the sequence that cross-attention sees; null: none.
  const KvPages* parent_pages = nullptr;
  size_t parent_keys = 0;
  /// Of `past`, the tokens that do not count as positions (Sinusoids::pad); 0 where positions are of another kind.
  size_t past_padding = 0;
};

}  // namespace sida
