#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"

namespace sida {

/// Reads a GGUF file's head from its beginning, through a buffer. What lies behind the end of the file, or behind
/// `limit` bytes, throws checkpoint_invalid.
class GgufCursor {
 public:
  GgufCursor(const File& file, const std::string& display, uint64_t limit)
      : file_(file), display_(display), limit_(limit) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_.size() - position_; }

  template <typename T>
  T read(const char* what) {
    T value;
    read_bytes(&value, sizeof(T), what);
    return value;
  }
  /// A length and so many bytes, at most `most`.
  std::string read_text(uint64_t most, const char* what);
  /// Goes over `bytes`.
  void skip(uint64_t bytes, const char* what);

  /// Errors from now on are about this key, this tensor or the file.
  void about_key(std::string key) { key_ = std::move(key), tensor_.clear(); }
  void about_tensor(std::string tensor) { tensor_ = std::move(tensor), key_.clear(); }
  void about_file() { key_.clear(), tensor_.clear(); }
  Error fault(const std::string& what, const std::string& expected, const std::string& found,
              const std::string& hint = "", std::map<std::string, double> numbers = {}) const;

 private:
  void read_bytes(void* out, size_t bytes, const char* what);
  void check(uint64_t bytes, const char* what) const;

  const File& file_;
  const std::string& display_;
  uint64_t limit_;
  uint64_t position_ = 0;
  uint64_t buffer_begin_ = 0;
  std::vector<char> buffer_;
  std::string key_, tensor_;
};

}  // namespace sida
