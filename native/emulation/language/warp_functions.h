#pragma once

#include <cstring>
#include <type_traits>

#include "language/vectors.h"

namespace sida::emulation {

/// Waits for all threads of the block.
void block_barrier();
/// Waits for the lanes of `mask` and orders memory among them, which the other warp functions do not.
void warp_barrier(unsigned mask);
/// The word of lane `source` of the warp, which must be in `mask`; all lanes of it call.
unsigned shuffle(unsigned mask, unsigned word, unsigned source);
/// Bit i is lane i's `predicate`.
unsigned ballot(unsigned mask, bool predicate);
/// All lanes' words, for functions of them all.
struct LaneWords {
  unsigned words[32];
};
LaneWords gather(unsigned mask, unsigned word);
/// The thread's index in its warp.
unsigned lane();

/// `value` word by word through shuffle().
template <class T>
T shuffle_value(unsigned mask, T value, unsigned source) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2));
  unsigned words[2] = {};
  std::memcpy(words, &value, sizeof(T));
  words[0] = shuffle(mask, words[0], source);
  if constexpr (sizeof(T) == 8) words[1] = shuffle(mask, words[1], source);
  std::memcpy(&value, words, sizeof(T));
  return value;
}

}  // namespace sida::emulation

inline void __syncthreads() { sida::emulation::block_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffU) { sida::emulation::warp_barrier(mask); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned lane = sida::emulation::lane();
  const unsigned first = lane & ~(static_cast<unsigned>(width) - 1);
  return sida::emulation::shuffle_value(
      mask, value, first + (static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1)));
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const unsigned lane = sida::emulation::lane();
  const unsigned source = lane ^ static_cast<unsigned>(lane_mask);
  // A source in a later group of `width` lanes gives the thread its own value, one in an earlier group is
  // read.
  const bool later = source >= (lane & ~(static_cast<unsigned>(width) - 1)) + static_cast<unsigned>(width);
  return sida::emulation::shuffle_value(mask, value, later ? lane : source);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = sida::emulation::lane();
  const unsigned in_group = lane & (static_cast<unsigned>(width) - 1);
  return sida::emulation::shuffle_value(
      mask, value, in_group + delta < static_cast<unsigned>(width) ? lane + delta : lane);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const unsigned lane = sida::emulation::lane();
  const unsigned in_group = lane & (static_cast<unsigned>(width) - 1);
  return sida::emulation::shuffle_value(mask, value, in_group >= delta ? lane - delta : lane);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return sida::emulation::ballot(mask, predicate != 0);
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

/// The lanes that happen to run together: never more than one here.
inline unsigned __activemask() { return 1U << sida::emulation::lane(); }

template <class T>
requires std::is_integral_v<T> T __reduce_add_sync(unsigned mask, T value) {
  const auto all = sida::emulation::gather(mask, static_cast<unsigned>(value));
  unsigned sum = 0;
  for (unsigned i = 0; i < 32; ++i) sum += (mask >> i & 1) != 0 ? all.words[i] : 0;
  return static_cast<T>(sum);
}

template <class T>
requires std::is_integral_v<T> T __reduce_max_sync(unsigned mask, T value) {
  const auto all = sida::emulation::gather(mask, static_cast<unsigned>(value));
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && value < static_cast<T>(all.words[i])) value = static_cast<T>(all.words[i]);
  }
  return value;
}

template <class T>
requires std::is_integral_v<T> T __reduce_min_sync(unsigned mask, T value) {
  const auto all = sida::emulation::gather(mask, static_cast<unsigned>(value));
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && static_cast<T>(all.words[i]) < value) value = static_cast<T>(all.words[i]);
  }
  return value;
}

/// The lanes whose word is this lane's.
template <class T>
unsigned __match_any_sync(unsigned mask, T value) {
  static_assert(sizeof(T) == 4);
  unsigned word;
  std::memcpy(&word, &value, sizeof(word));
  const auto all = sida::emulation::gather(mask, word);
  unsigned same = 0;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0 && all.words[i] == word) same |= 1U << i;
  }
  return same;
}
