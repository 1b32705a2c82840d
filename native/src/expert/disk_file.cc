#include "expert/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

namespace sida {
namespace {

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

uint64_t total(std::span<const iovec> buffers) {
  uint64_t bytes = 0;
  for (const iovec& buffer : buffers) bytes += buffer.iov_len;
  return bytes;
}

/// Drops the first `bytes` of `buffers`.
std::span<iovec> behind(std::span<iovec> buffers, size_t bytes) {
  while (!buffers.empty() && bytes >= buffers.front().iov_len) {
    bytes -= buffers.front().iov_len;
    buffers = buffers.subspan(1);
  }
  if (bytes > 0) {
    iovec& first = buffers.front();
    first.iov_base = static_cast<std::byte*>(first.iov_base) + bytes;
    first.iov_len -= bytes;
  }
  return buffers;
}

}  // namespace

DiskFile::DiskFile(std::string path, uint64_t expected_bytes)
    : path_(std::move(path)), bytes_(expected_bytes) {
  direct_fd_ = ::open(path_.c_str(), kFlags | O_DIRECT);
  fd_ = direct_fd_;
  if (direct_fd_ < 0) fall_back_to_buffered();
  struct stat status {};
  if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) &&
      static_cast<uint64_t>(status.st_size) == expected_bytes)
    return;
  ::close(fd_);
  const auto found = static_cast<uint64_t>(status.st_size);
  throw Error(
      "pack_invalid",
      path_ + ": size: expected " + std::to_string(expected_bytes) + " bytes, found " +
          std::to_string(found) + "; convert the model again",
      {{"expected_bytes", static_cast<double>(expected_bytes)}, {"found_bytes", static_cast<double>(found)}});
}

DiskFile::~DiskFile() {
  if (direct_fd_ >= 0) ::close(direct_fd_);
  if (buffered_fd_ >= 0) ::close(buffered_fd_);
}

void DiskFile::fall_back_to_buffered() {
  std::lock_guard lock(opening_);
  if (buffered_fd_ >= 0) return;
  buffered_fd_ = ::open(path_.c_str(), kFlags);
  if (buffered_fd_ < 0) throw Error("io_error", path_ + ": cannot be opened: " + std::strerror(errno));
  // Read-ahead of neighbouring blocks would only keep the disk from reading the next expert.
  posix_fadvise(buffered_fd_, 0, 0, POSIX_FADV_RANDOM);
  fd_ = buffered_fd_;
}

void DiskFile::read(uint64_t offset, std::span<iovec> buffers) {
  const uint64_t bytes = total(buffers);
  uint64_t done = 0;
  while (done < bytes) {
    const int fd = fd_;
    const ssize_t got =
        preadv(fd, buffers.data(), static_cast<int>(buffers.size()), static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<uint64_t>(got);
      buffers = behind(buffers, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && fd == direct_fd_) {
      fall_back_to_buffered();
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

void DiskFile::read(uint64_t offset, uint64_t bytes, std::byte* out) {
  iovec buffer{out, bytes};
  read(offset, {&buffer, 1});
}

}  // namespace sida
