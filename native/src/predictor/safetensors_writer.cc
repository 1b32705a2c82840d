#include "predictor/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>

#include "core/error.h"

namespace sida {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

constexpr size_t kLengthBytes = 8;
constexpr size_t kDataAlignment = 64;

std::string shape_json(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error("io_error", path + ": " + what + ": " + std::strerror(errno));
}

void write_all(int fd, const std::string& path, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(path, "writing failed");
    done += static_cast<size_t>(written);
  }
  if (fsync(fd) != 0) fail(path, "fsync failed");
}

// The rename survives a crash only once the directory is synced.
void sync_directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  ::close(fd);
}

}  // namespace

uint64_t SafetensorsTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

std::string safetensors_bytes(std::span<const SafetensorsTensor> tensors) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const uint64_t end = offset + tensor.elements() * sizeof(float);
    header += (header.size() > 1 ? ",\"" : "\"") + tensor.name + R"(":{"dtype":"F32","shape":)" +
              shape_json(tensor.shape) + R"(,"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) +
              "]}";
    offset = end;
  }
  header += "}";
  while ((kLengthBytes + header.size()) % kDataAlignment != 0) header += ' ';
  std::string bytes;
  bytes.reserve(kLengthBytes + header.size() + offset);
  for (size_t i = 0; i < kLengthBytes; ++i) bytes += static_cast<char>(header.size() >> (8 * i));
  bytes += header;
  for (const SafetensorsTensor& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.data), tensor.elements() * sizeof(float));
  }
  return bytes;
}

void write_file_atomically(const std::string& path, const std::string& bytes) {
  const std::string temporary = path + ".partial";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) fail(temporary, "cannot be written");
  try {
    write_all(fd, temporary, bytes);
  } catch (...) {
    ::close(fd);
    ::unlink(temporary.c_str());
    throw;
  }
  ::close(fd);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail(path, "cannot be renamed into place");
  }
  sync_directory_of(path);
}

}  // namespace sida
