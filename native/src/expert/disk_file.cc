#include "expert/disk_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/file.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif

namespace sida {
namespace {

constexpr uint64_t kPage = 4096;
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
    : path_(std::move(path)), bytes_(expected_bytes), fd_(::open(path_.c_str(), kFlags | O_DIRECT)), direct_(fd_ >= 0) {
  if (fd_ < 0) fd_ = ::open(path_.c_str(), kFlags);
  if (fd_ < 0) throw Error("io_error", path_ + ": cannot be opened: " + std::strerror(errno));
  try {
    if (!direct_) read_buffered();
    check();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

void DiskFile::check() const {
  struct stat status {};
  if (fstat(fd_, &status) != 0) throw Error("io_error", path_ + ": cannot be examined: " + std::strerror(errno));
  if (!S_ISREG(status.st_mode)) {
    throw Error("pack_invalid", path_ + ": expected a regular file, found " + file_kind(status.st_mode));
  }
  const auto found = static_cast<uint64_t>(status.st_size);
  if (found == bytes_) return;
  throw Error("pack_invalid",
              path_ + ": size: expected " + std::to_string(bytes_) + " bytes, found " + std::to_string(found) +
                  "; convert the model again",
              {{"expected_bytes", static_cast<double>(bytes_)}, {"found_bytes", static_cast<double>(found)}});
}

DiskFile::~DiskFile() { ::close(fd_); }

void DiskFile::read_buffered() {
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fcntl(fd_, F_SETFL, flags & ~O_DIRECT) < 0) {
    throw Error("io_error", path_ + ": cannot be read through the page cache: " + std::strerror(errno));
  }
  // Read-ahead of neighbouring blocks would only keep the disk from reading the next expert.
  posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  direct_ = false;
}

void DiskFile::read(uint64_t offset, std::span<iovec> buffers) {
  const uint64_t all = total(buffers), last_page = (bytes_ + kPage - 1) / kPage * kPage;
  const uint64_t bytes = offset + all > bytes_ && offset + all <= last_page ? bytes_ - offset : all;
  uint64_t done = 0;
  while (done < bytes) {
    const bool direct = direct_;
    const ssize_t got =
        preadv(fd_, buffers.data(), static_cast<int>(buffers.size()), static_cast<off_t>(offset + done));
    if (got > 0) {
      done += static_cast<uint64_t>(got);
      buffers = behind(buffers, static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && direct) {
      read_buffered();
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

}  // namespace sida
