#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sida {

/// One sequence's part of a ragged pass: rows [begin, begin + count) of the activations.
struct SequenceSpan {
  size_t begin;
  size_t count;
  /// Tokens before these in the sequence (decoder).
  size_t past;
  /// Keys that may be attended to in the encoder: `count`, or less when the tail is padding.
  size_t attended;
  /// Pages of the sequence's own keys and values. Encoder: the new context's; decoder: its self-attention's.
  const std::vector<uint32_t>* pages;
  /// Decoder: pages and attended keys of the context.
  const std::vector<uint32_t>* context_pages = nullptr;
  size_t context_keys = 0;
};

}  // namespace sida
