#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "spec/batch_limits.h"
#include "spec/kv_page.h"
#include "spec/spec.h"

namespace sida {

/// What a layer caches of a token.
struct KvHeads {
  size_t heads, head_dim;

  bool operator==(const KvHeads&) const = default;
};

/// Sizes of what is cached: the layers of the model's last stack, those with attention of kv_heads heads each.
struct KvShape {
  size_t layers = 0;
  size_t heads = 0;
  size_t head_dim = 0;
  bool latent = false;  ///< one row of `head_dim` columns a token, not keys and values of heads
  KvFormat format = KvFormat::kF32;
  /// (layers): keys that a query sees, its own the last of them; kNoWindow: all. Empty: no layer has a window.
  std::vector<size_t> windows = {};
  /// (layers): floats of a layer's recurrent state, which a sequence has in place of keys; 0: it has keys. Empty: all
  /// have.
  std::vector<size_t> states = {};
  /// (layers), where they differ in heads. Empty: all have `heads` of `head_dim`.
  std::vector<KvHeads> by_layer = {};

  KvHeads heads_of(size_t layer) const { return by_layer.empty() ? KvHeads{heads, head_dim} : by_layer[layer]; }

  static constexpr size_t kNoWindow = std::numeric_limits<size_t>::max();

  static KvShape of(const ModelSpec& spec, KvFormat format);
};

/// What a cache has room for.
struct KvRoom {
  size_t tokens;       ///< of all sequences together
  size_t pass_tokens;  ///< of the largest pass
  size_t windows;      ///< sequences with a whole window, beside the tokens of the largest pass
  size_t states;       ///< sequences with a recurrent state

  KvRoom(size_t tokens_, size_t pass_tokens_ = std::numeric_limits<size_t>::max(), size_t windows_ = 1,
         size_t states_ = 1)
      : tokens(tokens_), pass_tokens(pass_tokens_), windows(windows_), states(states_) {}
  explicit KvRoom(const BatchLimits& limits)
      : KvRoom(limits.kv_tokens, limits.max_batch_tokens, limits.kv_windows, limits.kv_states) {}
};

/// Layers with the same window, or all with a recurrent state. They share page numbers and give up pages together.
struct KvGroup {
  size_t window;
  size_t layers;
  size_t pages;
  uint64_t page_bytes;
  uint64_t begin;          ///< of page 0 in the cache, in bytes
  bool recurrent = false;  ///< a page is the state of one sequence, behind all its tokens

  bool windowed() const { return window != KvShape::kNoWindow; }
  /// The first page that a sequence of `tokens` tokens still needs: its next token sees `window` keys.
  size_t first_page(size_t tokens) const;
  /// The tokens that take as many pages as a sequence of `tokens` tokens has.
  size_t paged(size_t tokens) const { return recurrent && tokens > 1 ? 1 : tokens; }
};

/// Where the pages and layers of a cache are. A page holds, for each layer of its group, keys as [heads][head_dim][16]
/// and values as [heads][16][head_dim padded to 16]; of latent attention it holds rows as [16][head_dim padded to 16].
struct KvLayout {
  struct Layer {
    size_t group;
    uint64_t begin;  ///< in a page, in bytes
    size_t heads, head_dim;

    size_t head_dim_padded() const { return (head_dim + 15) / 16 * 16; }
    /// Of the keys in a page.
    size_t key_elements() const { return heads * head_dim * kPageTokens; }
  };

  size_t pages;  ///< of the room's tokens: no sequence may be longer
  uint64_t bytes = 0;
  std::vector<KvGroup> groups;
  std::vector<Layer> layers;

  KvLayout(const KvShape& shape, const KvRoom& room);
};

}  // namespace sida
