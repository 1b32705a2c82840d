#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

namespace sida {

/// A file of expert blocks, read past the page cache (O_DIRECT) where the file system allows it. Reads may
/// come from any thread.
class DiskFile {
 public:
  /// Throws pack_invalid when it is no regular file of `expected_bytes`, io_error when it cannot be opened.
  DiskFile(std::string path, uint64_t expected_bytes);
  ~DiskFile();
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  /// Reads the bytes from `offset` on into one buffer after the other. All offsets, sizes and addresses are multiples
  /// of 4 KiB. Takes at most IOV_MAX buffers and changes their entries. Blocks. Throws io_error.
  void read(uint64_t offset, std::span<iovec> buffers);
  void read(uint64_t offset, uint64_t bytes, std::byte* out);

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }
  bool direct() const { return direct_; }

 private:
  void check() const;
  /// Of the same descriptor, as the path may lead to another file by now.
  void read_buffered();

  std::string path_;
  uint64_t bytes_;
  int fd_;
  std::atomic<bool> direct_;
};

}  // namespace sida
