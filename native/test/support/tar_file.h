#pragma once

#include "support/test.h"

namespace sida::testing {

/// A file in a tar archive.
struct TarEntry {
  std::string name;
  std::string bytes;
  bool sound;  ///< its header has the checksum that it states, and its bytes are all there
};

/// The files of a ustar archive of regular files, in the order of the archive.
inline std::vector<TarEntry> read_tar(const std::string& path) {
  // Header fields, each text that ends in a NUL or a blank: name, size and checksum (octal).
  constexpr size_t kBlock = 512, kName = 0, kNameBytes = 100, kSize = 124, kSum = 148, kSumBytes = 8;
  const std::string archive = read_text_file(path);
  std::vector<TarEntry> entries;
  for (size_t at = 0; at + kBlock <= archive.size() && archive[at] != '\0';) {
    const std::string_view header = std::string_view(archive).substr(at, kBlock);
    const std::string_view name = header.substr(kName, kNameBytes);
    const size_t size = std::strtoul(&header[kSize], nullptr, 8);
    // The checksum is the sum of the header's bytes, its own counted as blanks.
    size_t sum = kSumBytes * ' ';
    for (size_t i = 0; i < kBlock; ++i) {
      if (i < kSum || i >= kSum + kSumBytes) sum += static_cast<unsigned char>(header[i]);
    }
    const bool sound = sum == std::strtoul(&header[kSum], nullptr, 8) && archive.size() - at - kBlock >= size;
    entries.push_back({std::string(name.substr(0, name.find('\0'))), archive.substr(at + kBlock, size), sound});
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return entries;
}

}  // namespace sida::testing
