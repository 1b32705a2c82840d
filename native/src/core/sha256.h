#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sida {

/// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  void update(std::string_view bytes);
  /// The digest in hexadecimal. The object cannot be used again.
  std::string finish();

 private:
  void compress(const unsigned char* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  uint64_t bytes_ = 0;
};

}  // namespace sida
