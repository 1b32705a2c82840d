// Panel GEMM of an expert's shape with weights from DRAM, beside the machine's own limits in the same run.
//   linear_bench [threads]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "device/backend.h"
#include "ops/linear.h"

namespace {

using namespace sida;

/// Median seconds of `repeats` runs after one warm-up.
double median_seconds(int repeats, const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int i = 0; i <= repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i > 0) seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

double read_bandwidth(ThreadPool& pool, const std::byte* data, size_t bytes) {
  std::vector<uint64_t> sums(pool.threads() * 8);
  const double seconds = median_seconds(5, [&] {
    pool.parallel_for(pool.threads() * 8, [&](size_t task, size_t) {
      const auto* words = reinterpret_cast<const uint64_t*>(data);
      const size_t count = bytes / 8 / sums.size();
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = task * count; i + 4 <= (task + 1) * count; i += 4) {
        a += words[i];
        b += words[i + 1];
        c += words[i + 2];
        d += words[i + 3];
      }
      sums[task] = a + b + c + d;
    });
  });
  return static_cast<double>(bytes) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  ThreadPool pool(argc > 1 ? static_cast<size_t>(std::atoi(argv[1])) : std::thread::hardware_concurrency());
  const auto backend = make_cpu_backend();
  constexpr size_t kD = 768, kFf = 3072, kBytes = 600u << 20;
  std::byte* arena = backend->allocate(kBytes + 8192);
  for (size_t i = 0; i < kBytes / 2; ++i)
    reinterpret_cast<uint16_t*>(arena)[i] = static_cast<uint16_t>(0x3c00 + i % 64);
  const double bandwidth = read_bandwidth(pool, arena, kBytes);
  std::printf("isa %s, %zu threads, DRAM read %.1f GB/s\n", cpu_kernels().isa, pool.threads(),
              bandwidth / 1e9);
  std::printf("%-5s %5s %10s %10s %8s\n", "dtype", "rows", "GB/s", "GFLOP/s", "of read");
  std::vector<float> x(256 * kFf, 0.5f), y(256 * kFf);
  for (const WeightFormat format : {kF32Format, kBf16Format}) {
    const size_t bytes = panel_matrix_bytes(kFf, kD, format), matrices = kBytes / bytes;
    for (const size_t rows : {1, 2, 4, 8, 16, 64, 256}) {
      const size_t used = rows >= 64 ? 8 : matrices;
      const double seconds = median_seconds(5, [&] {
        for (size_t i = 0; i < used; ++i) {
          linear(pool, x.data(), kD, rows, {arena + i * bytes, format, kD, kFf}, y.data(), kFf,
                 Epilogue::kStore);
        }
      });
      const double rate = static_cast<double>(used * bytes) / seconds;
      std::printf("%-5s %5zu %10.1f %10.1f %7.0f%%\n", weight_type_name(format.type), rows, rate / 1e9,
                  2.0 * static_cast<double>(rows * kD * kFf * used) / seconds / 1e9, 100 * rate / bandwidth);
    }
  }
  backend->deallocate(arena, kBytes + 8192);
}
