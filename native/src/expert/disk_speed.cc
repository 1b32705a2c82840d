#include "expert/disk_speed.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "core/error.h"
#include "device/backend.h"
#include "expert/disk_file.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<size_t, 4> kDepths{1, 2, 4, 8};
/// The rates of one depth scatter by about this factor; a deeper queue must gain more than that.
constexpr double kNearlyBest = 0.9;
constexpr int kRounds = 2;
constexpr uint64_t kLongRead = 1 << 20;

constexpr uint64_t kHugePage = 2 << 20;

/// The kind of memory that slots have: large slots lie in huge pages, into which a disk reads faster.
class ReadBuffer {
 public:
  explicit ReadBuffer(uint64_t bytes)
      : bytes_(bytes < kHugePage / 2 ? bytes : bytes + kHugePage), data_(backend_->allocate(bytes_)) {
    if (data_ == nullptr) throw Error("out_of_memory", "no memory to measure a disk with");
  }
  ~ReadBuffer() { backend_->deallocate(data_, bytes_); }
  ReadBuffer(const ReadBuffer&) = delete;
  ReadBuffer& operator=(const ReadBuffer&) = delete;

  std::byte* data() const {
    if (bytes_ < kHugePage) return data_;
    const auto address = reinterpret_cast<uintptr_t>(data_);
    return data_ + (kHugePage - address % kHugePage) % kHugePage;
  }

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend();
  uint64_t bytes_;
  std::byte* data_;
};

/// Offsets in a scattered order that reads each place of a file once before it reads any place again.
class Places {
 public:
  explicit Places(uint64_t count) : count_(count) {
    while (std::gcd(stride_, count) != 1) ++stride_;
  }
  uint64_t next() { return next_++ % count_ * stride_ % count_; }

 private:
  uint64_t count_;
  uint64_t stride_ = 7919;
  std::atomic<uint64_t> next_{0};
};

uint64_t size_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error("io_error", path + ": " + std::strerror(errno));
  return static_cast<uint64_t>(status.st_size);
}

double rate_at(ExpertFile& file, size_t depth, uint64_t read_bytes, Places& places,
               std::span<const std::unique_ptr<ReadBuffer>> buffers, std::chrono::duration<double> limit) {
  std::atomic<uint64_t> bytes{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto start = Clock::now();
  const auto read = [&](size_t reader) {
    try {
      do {
        file.read(places.next() * read_bytes, read_bytes, buffers[reader]->data());
        bytes += read_bytes;
      } while (Clock::now() - start < limit);
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < depth; ++i) others.emplace_back(read, i);
    read(0);
  }
  if (error) std::rethrow_exception(error);
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DiskSpeed measure_disk_speed(ExpertFile& file, uint64_t read_bytes, std::chrono::duration<double> limit) {
  const uint64_t count = file.bytes() / read_bytes;
  if (count == 0) throw Error("io_error", file.path() + ": too small to measure a disk with");
  Places places(count);
  // Many long reads in flight gain nothing on any disk, and touching their buffers costs time.
  const size_t depths = read_bytes < kLongRead ? kDepths.size() : 2;
  std::vector<std::unique_ptr<ReadBuffer>> buffers;
  while (buffers.size() < kDepths[depths - 1]) buffers.push_back(std::make_unique<ReadBuffer>(read_bytes));
  std::vector<double> rates(depths);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < depths; ++i) {
      const double rate =
          rate_at(file, kDepths[i], read_bytes, places, buffers, limit / static_cast<double>(kRounds * depths));
      rates[i] = std::max(rates[i], rate);
    }
  }
  const double best = *std::max_element(rates.begin(), rates.end());
  const auto nearly_best = [&](double rate) { return rate >= kNearlyBest * best; };
  // A reader that ended a read is late for the next one while all cores compute, which nothing does here: of two equal
  // numbers of long reads the larger keeps the disk busy.
  size_t chosen = depths - 1;
  if (read_bytes >= kLongRead) {
    while (!nearly_best(rates[chosen])) --chosen;
  } else {
    chosen = static_cast<size_t>(std::find_if(rates.begin(), rates.end(), nearly_best) - rates.begin());
  }
  return {kDepths[chosen], rates[chosen], best};
}

DiskSpeed measure_disk_speed(const std::string& path, uint64_t read_bytes, std::chrono::duration<double> limit) {
  DiskFile file(path, size_of(path));
  return measure_disk_speed(file, read_bytes, limit);
}

}  // namespace sida
