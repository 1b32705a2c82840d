#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sida {

/// The packed expert file, read past the page cache (O_DIRECT) where the file system allows it.
class DiskTier {
 public:
  /// Throws pack_invalid when the file's size is not `expected_bytes`, io_error when it cannot be opened.
  DiskTier(std::string path, uint64_t expected_bytes);
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;

  /// Reads [offset, offset + bytes) into `out`; all three are multiples of 4 KiB. Blocks. Throws io_error.
  void read(uint64_t offset, uint64_t bytes, std::byte* out);
  bool direct() const { return direct_; }

 private:
  void open_buffered();

  std::string path_;
  int fd_ = -1;
  bool direct_ = false;
};

/// Sequential read speed of a file in bytes per second, past the page cache where possible.
double measure_disk_read(const std::string& path, uint64_t bytes);

}  // namespace sida
