#include "core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace sida {
namespace {

int64_t modified_ns(const struct stat& status) {
  return static_cast<int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

using Numbers = std::map<std::string, double>;

[[noreturn]] void fail(const std::string& path, const std::string& what, Numbers numbers = {}) {
  throw Error("io_error", escape_text(path, 512) + ": " + what, std::move(numbers));
}

[[noreturn]] void fail_errno(const std::string& path, const std::string& what, int error) {
  fail(path, what + ": " + std::strerror(error), {{"errno", error}});
}

}  // namespace

const char* file_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISREG(mode) ? "a regular file" : "something else";
}

File File::open(const std::string& path, bool follow_link) {
  if (path.find('\0') != std::string::npos) fail(path, "expected a path without NUL");
  // O_NONBLOCK: opening a FIFO without a writer would wait for one. Regular files ignore it.
  const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow_link ? 0 : O_NOFOLLOW);
  const int descriptor = ::open(path.c_str(), flags);
  if (descriptor < 0) fail_errno(path, "cannot open", errno);
  File file(path, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_errno(path, "cannot stat", errno);
  if (!S_ISREG(status.st_mode)) {
    fail(path, std::string("expected a regular file, found ") + file_kind(status.st_mode));
  }
  file.size_ = static_cast<uint64_t>(status.st_size);
  file.modified_ns_ = modified_ns(status);
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      modified_ns_(other.modified_ns_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::pread_exact(uint64_t offset, void* out, size_t bytes) const {
  char* to = static_cast<char*>(out);
  size_t done = 0;
  while (done < bytes) {
    // Linux reads at most 2 GiB - 4 KiB a call.
    const size_t chunk = std::min<size_t>(bytes - done, size_t{1} << 30);
    const ssize_t got = ::pread(descriptor_, to + done, chunk, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path_, "cannot read at byte " + std::to_string(offset + done), errno);
    if (got == 0) {
      fail(path_,
           "ends early: expected " + std::to_string(bytes) + " bytes at byte " + std::to_string(offset) + ", found " +
               std::to_string(done) + "; the file was cut while it was in use",
           {{"offset", static_cast<double>(offset)},
            {"expected", static_cast<double>(bytes)},
            {"found", static_cast<double>(done)}});
    }
    done += static_cast<size_t>(got);
  }
}

bool File::unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail_errno(path_, "cannot stat", errno);
  return static_cast<uint64_t>(status.st_size) == size_ && modified_ns(status) == modified_ns_;
}

}  // namespace sida
