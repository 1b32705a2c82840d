#include "checkpoint/safetensors_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "checkpoint/model_file.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kCountedBytes = 64 << 10;

uint64_t read_header_length(const File& file, const std::string& display) {
  if (file.size() < kLengthBytes) {
    throw checkpoint_error({display, "", "too short for a safetensors file", "at least 8 bytes",
                            std::to_string(file.size()), "download the file again",
                            expected_found(kLengthBytes, file.size())});
  }
  unsigned char bytes[kLengthBytes];
  file.pread_exact(0, bytes, sizeof bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  if (length > kMaxHeaderBytes) {
    throw checkpoint_error({display, "", "header too long", "at most " + std::to_string(kMaxHeaderBytes) + " bytes",
                            std::to_string(length), "is it a safetensors file?",
                            expected_found(kMaxHeaderBytes, length)});
  }
  const uint64_t rest = file.size() - kLengthBytes;
  if (length > rest) {
    throw checkpoint_error({display, "", "header ends past the file",
                            "a header of at most " + std::to_string(rest) + " bytes", std::to_string(length),
                            "the file may have been cut: download it again", expected_found(rest, length)});
  }
  return length;
}

// Refuses a file of another kind before it is parsed, so that the error is plain.
void check_begins_object(const File& file, uint64_t header_bytes, const std::string& display) {
  std::string begin(std::min<uint64_t>(header_bytes, 4096), '\0');
  file.pread_exact(kLengthBytes, begin.data(), begin.size());
  const size_t first = begin.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && begin[first] == '{') return;
  const std::string found = first == std::string::npos
                                ? (begin.empty() ? "nothing" : "blanks")
                                : "\"" + escape_text(std::string_view(begin).substr(first, 16)) + "\"";
  const char* hint = "is it a safetensors file?";
  throw checkpoint_error({display, "", "header is no JSON object", "\"{\"", found, hint, {}});
}

// Counts objects before memory is allocated for tensors.
void check_object_count(const File& file, uint64_t header_bytes, const std::string& display) {
  std::vector<char> chunk(std::min<uint64_t>(header_bytes, kCountedBytes));
  size_t objects = 0;
  bool in_string = false, escaped = false;
  for (uint64_t at = 0; at < header_bytes && objects <= kMaxHeaderObjects; at += chunk.size()) {
    chunk.resize(std::min<uint64_t>(header_bytes - at, chunk.size()));
    file.pread_exact(kLengthBytes + at, chunk.data(), chunk.size());
    for (const char c : chunk) {
      if (escaped) {
        escaped = false;
      } else if (c == '"') {
        in_string = !in_string;
      } else if (in_string) {
        escaped = c == '\\';
      } else if (c == '{') {
        ++objects;
      }
    }
  }
  if (objects <= kMaxHeaderObjects) return;
  throw checkpoint_error({display,
                          "",
                          "too many tensors",
                          "at most " + std::to_string(kMaxHeaderObjects) + " objects in the header",
                          "more",
                          "save the model in several files",
                          {}});
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const std::string& path, const std::string& display) {
  const std::filesystem::path parts(path);
  const std::string directory = parts.has_parent_path() ? parts.parent_path().string() : ".";
  SafetensorsFile result(open_model_file(directory, parts.filename().string()), display.empty() ? path : display);
  const File& file = result.file_;
  result.header_bytes_ = read_header_length(file, result.display_);
  check_begins_object(file, result.header_bytes_, result.display_);
  check_object_count(file, result.header_bytes_, result.display_);
  const uint64_t data_bytes = file.size() - kLengthBytes - result.header_bytes_;
  result.tensors_ =
      parse_safetensors_header(JsonInput(file, kLengthBytes, result.header_bytes_), data_bytes, result.display_);
  return result;
}

}  // namespace sida
