#pragma once

#include "support/test.h"

namespace sida::testing {

inline double double_of_hex(const std::string& digits) {
  return std::bit_cast<double>(static_cast<uint64_t>(std::stoull(digits, nullptr, 16)));
}

/// The words after `kind` in each such line of test/fixtures/math-bits.txt, which scripts/math-bits.mjs
/// writes.
inline std::vector<std::vector<std::string>> math_bits(const std::string& kind) {
  std::ifstream file(repo() + "/test/fixtures/math-bits.txt");
  std::vector<std::vector<std::string>> lines;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string word;
    words >> word;
    if (word != kind) continue;
    lines.emplace_back();
    while (words >> word) lines.back().push_back(word);
  }
  REQUIRE(!lines.empty());
  return lines;
}

}  // namespace sida::testing
