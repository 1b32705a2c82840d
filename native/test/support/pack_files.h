#pragma once

#include "support/test.h"
#include "support/test_pack.h"

namespace sida::testing {

inline constexpr WeightFormat kInt4Format{WeightType::kInt4, 64};

/// The checkpoint that tests of packs convert.
inline const std::string& small_checkpoint() {
  static const std::string directory = fixture("switch-tiny-untied");
  return directory;
}

template <class T>
void write_at(const std::string& path, uint64_t offset, T value) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(&value), sizeof value);
  REQUIRE(file.good());
}

template <class T>
T read_at(const std::string& path, uint64_t offset) {
  T value;
  File::open(path).pread_exact(offset, &value, sizeof value);
  return value;
}

}  // namespace sida::testing
