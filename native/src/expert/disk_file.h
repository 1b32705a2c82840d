#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "expert/expert_file.h"

namespace sida {

/// A file, read past the page cache (O_DIRECT) where the file system allows it.
class DiskFile final : public ExpertFile {
 public:
  /// Throws pack_invalid when it is no regular file of `expected_bytes`, io_error when it cannot be opened.
  DiskFile(std::string path, uint64_t expected_bytes);
  ~DiskFile() override;
  DiskFile(const DiskFile&) = delete;
  DiskFile& operator=(const DiskFile&) = delete;

  /// A read may reach beyond the end in the file's last page, and leaves those bytes as they are.
  void read(uint64_t offset, std::span<iovec> buffers) override;
  using ExpertFile::read;

  const std::string& path() const override { return path_; }
  uint64_t bytes() const override { return bytes_; }
  bool direct() const override { return direct_; }

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
