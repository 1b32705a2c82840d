#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

namespace sida {

/// A file of expert blocks, read past the page cache (O_DIRECT) where the file system allows it. Reads may
/// come from any thread.
class DiskFile {
 public:
  /// Throws pack_invalid when the file's size is not `expected_bytes`, io_error when it cannot be opened.
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
  bool direct() const { return fd_ == direct_fd_; }

 private:
  void fall_back_to_buffered();

  std::string path_;
  uint64_t bytes_;
  int direct_fd_ = -1;
  int buffered_fd_ = -1;
  std::mutex opening_;
  /// The descriptor in use, one of the two above. The other stays open: a read may still use it.
  std::atomic<int> fd_{-1};
};

}  // namespace sida
