#include "expert/disk_speed.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "core/error.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<size_t, 4> kDepths{1, 2, 4, 8};
/// The rates of one depth scatter by about this much; a deeper queue has to gain more than that.
constexpr double kNearlyBest = 0.9;
constexpr int kRounds = 2;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

std::unique_ptr<std::byte, Free> page_aligned(uint64_t bytes) {
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
}

/// Places that jump about a file without meeting one twice before all were met.
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

double rate_at(DiskFile& file, size_t depth, uint64_t read_bytes, Places& places,
               std::chrono::duration<double> limit) {
  std::atomic<uint64_t> bytes{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto start = Clock::now();
  const auto read = [&] {
    try {
      const auto buffer = page_aligned(read_bytes);
      do {
        file.read(places.next() * read_bytes, read_bytes, buffer.get());
        bytes += read_bytes;
      } while (Clock::now() - start < limit);
    } catch (...) {
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < depth; ++i) others.emplace_back(read);
    read();
  }
  if (error) std::rethrow_exception(error);
  return static_cast<double>(bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DiskSpeed measure_disk_speed(DiskFile& file, uint64_t read_bytes, std::chrono::duration<double> limit) {
  const uint64_t count = file.bytes() / read_bytes;
  if (count == 0) throw Error("io_error", file.path() + ": too small to measure a disk with");
  Places places(count);
  std::array<double, kDepths.size()> rates{};
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < kDepths.size(); ++i) {
      const double rate = rate_at(file, kDepths[i], read_bytes, places, limit / (kRounds * kDepths.size()));
      rates[i] = std::max(rates[i], rate);
    }
  }
  const double enough = kNearlyBest * *std::max_element(rates.begin(), rates.end());
  const size_t chosen = static_cast<size_t>(
      std::find_if(rates.begin(), rates.end(), [&](double rate) { return rate >= enough; }) - rates.begin());
  return {kDepths[chosen], rates[chosen]};
}

double measure_disk_read(const std::string& path, uint64_t bytes) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) throw Error("io_error", path + ": " + std::strerror(errno));
  DiskFile file(path, static_cast<uint64_t>(status.st_size));
  constexpr uint64_t kPiece = 4 << 20;
  const uint64_t total = std::min<uint64_t>(bytes, file.bytes()) / kPiece * kPiece;
  if (total == 0) throw Error("io_error", path + ": too small to measure a disk with");
  const auto buffer = page_aligned(kPiece);
  const auto start = Clock::now();
  for (uint64_t offset = 0; offset < total; offset += kPiece) file.read(offset, kPiece, buffer.get());
  return static_cast<double>(total) / std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace sida
