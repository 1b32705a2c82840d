#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace sida {

/// A regular file open for reading. Reads are positioned, so one File serves any number of threads.
class File {
 public:
  /// Throws io_error where the path cannot be opened or is no regular file. Never blocks on a FIFO. With
  /// `follow_link` false the last component may not be a symbolic link.
  static File open(const std::string& path, bool follow_link = true);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Size when it was opened.
  uint64_t size() const { return size_; }

  /// Reads exactly `bytes`. Throws io_error with the numbers where the file ends early or the disk fails.
  void pread_exact(uint64_t offset, void* out, size_t bytes) const;
  /// Whether size and modification time are those of when the file was opened. Throws io_error.
  bool unchanged() const;

 private:
  File(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  int64_t modified_ns_ = 0;
};

/// The kind of file that a mode of stat(2) means: "a FIFO".
const char* file_kind(mode_t mode);

}  // namespace sida
