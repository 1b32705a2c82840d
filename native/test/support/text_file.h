#pragma once

#include <string>

#include "core/error.h"
#include "core/file.h"

namespace sida {

/// The whole text of a file of the tests. Throws io_error where it is larger than `max_bytes`.
inline std::string read_text_file(const std::string& path, uint64_t max_bytes) {
  const File file = File::open(path);
  if (file.size() > max_bytes) throw Error("io_error", path + ": too large");
  std::string text(file.size(), '\0');
  file.pread_exact(0, text.data(), text.size());
  return text;
}

}  // namespace sida
