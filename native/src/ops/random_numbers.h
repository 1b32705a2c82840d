#pragma once

#include <array>
#include <cstdint>

namespace sida {

/// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a
/// block of random bits for each counter and key, without a state.
constexpr std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xd2511f53} * counter[0];
    const uint64_t product2 = uint64_t{0xcd9e8d57} * counter[2];
    counter = {static_cast<uint32_t>(product2 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product2),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9e3779b9, key[1] + 0xbb67ae85};
  }
  return counter;
}

/// The number at `position` of the sequence of `seed`: in [0, 1), a multiple of 2^-53.
constexpr double uniform_number(uint64_t seed, uint64_t position) {
  const std::array<uint32_t, 4> block =
      philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{block[1]} << 32 | block[0]) >> 11) * 0x1p-53;
}

}  // namespace sida
