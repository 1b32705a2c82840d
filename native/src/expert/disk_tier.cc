#include "expert/disk_tier.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "core/error.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

namespace sida {

DiskTier::DiskTier(std::string path, uint64_t expected_bytes) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_DIRECT);
  direct_ = fd_ >= 0;
  if (fd_ < 0) open_buffered();
  struct stat status {};
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) != expected_bytes) {
    const auto found = static_cast<uint64_t>(status.st_size);
    ::close(fd_);
    throw Error("pack_invalid",
                path_ + ": size: expected " + std::to_string(expected_bytes) + " bytes, found " +
                    std::to_string(found) + "; convert the model again",
                {{"expected_bytes", static_cast<double>(expected_bytes)},
                 {"found_bytes", static_cast<double>(found)}});
  }
}

DiskTier::~DiskTier() { ::close(fd_); }

void DiskTier::open_buffered() {
  if (fd_ >= 0) ::close(fd_);
  direct_ = false;
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd_ < 0) throw Error("io_error", path_ + ": cannot be opened: " + std::strerror(errno));
  // Read-ahead of neighbours that nobody asked for would only take the disk from the next expert.
  posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
}

void DiskTier::read(uint64_t offset, uint64_t bytes, std::byte* out) {
  uint64_t done = 0;
  while (done < bytes) {
    const ssize_t got = pread(fd_, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<uint64_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && direct_) {
      open_buffered();
      continue;
    }
    const std::string reason = got == 0 ? "the file ends there" : std::strerror(errno);
    throw Error("io_error",
                path_ + ": expected " + std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                    ", found " + std::to_string(done) + ": " + reason,
                {{"offset", static_cast<double>(offset)},
                 {"expected_bytes", static_cast<double>(bytes)},
                 {"found_bytes", static_cast<double>(done)}});
  }
}

double measure_disk_read(const std::string& path, uint64_t bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error("io_error", path + ": " + std::strerror(errno));
  DiskTier disk(path, static_cast<uint64_t>(status.st_size));
  constexpr uint64_t kPiece = 4 << 20;
  const uint64_t total = std::min<uint64_t>(bytes, static_cast<uint64_t>(status.st_size)) / kPiece * kPiece;
  if (total == 0) throw Error("io_error", path + ": too small to measure a disk with");
  std::unique_ptr<std::byte, decltype(&std::free)> buffer(
      static_cast<std::byte*>(std::aligned_alloc(4096, kPiece)), &std::free);
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t offset = 0; offset < total; offset += kPiece) disk.read(offset, kPiece, buffer.get());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(total) / seconds.count();
}

}  // namespace sida
