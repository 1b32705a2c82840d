#pragma once

#include "support/test.h"

namespace sida::testing {

/// Name and bytes of the files of a ustar archive of regular files, in the order of the archive.
inline std::vector<std::pair<std::string, std::string>> read_tar(const std::string& path) {
  // The name and the size, in octal, end in a NUL each.
  constexpr size_t kBlock = 512, kSize = 124;
  const std::string archive = read_text_file(path);
  std::vector<std::pair<std::string, std::string>> files;
  for (size_t at = 0; at + kBlock <= archive.size() && archive[at] != '\0';) {
    const size_t size = std::strtoul(&archive[at + kSize], nullptr, 8);
    files.emplace_back(&archive[at], archive.substr(at + kBlock, size));
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return files;
}

}  // namespace sida::testing
