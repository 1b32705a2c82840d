#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/thread_pool.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/// What this machine gives at most: every bench that states a share of a limit measures it in the same run.
namespace sida::bench {

/// Median seconds of `repeats` runs after one warm-up.
inline double median_seconds(int repeats, const std::function<void()>& body) {
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

/// Bytes per second of all the pool's threads reading `bytes` at `data`, far more than the caches hold.
inline double read_bandwidth(ThreadPool& pool, const std::byte* data, size_t bytes) {
  const size_t tasks = pool.threads() * 8;
  std::vector<uint64_t> sums(tasks);
  const double seconds = median_seconds(5, [&] {
    pool.parallel_for(tasks, [&](size_t task, size_t) {
      const auto* words = reinterpret_cast<const uint64_t*>(data);
      const size_t count = bytes / 8 / tasks;
      uint64_t a = 0, b = 0, c = 0, d = 0;
      for (size_t i = task * count; i + 8 <= (task + 1) * count; i += 8) {
        // Ahead as the kernels do it, without which one core does not reach its share.
        __builtin_prefetch(words + i + 512, 0, 2);
        a += words[i] + words[i + 4];
        b += words[i + 1] + words[i + 5];
        c += words[i + 2] + words[i + 6];
        d += words[i + 3] + words[i + 7];
      }
      sums[task] = a + b + c + d;
    });
  });
  return static_cast<double>(bytes) / seconds;
}

constexpr size_t kFmaSteps = 1 << 22;
/// Enough independent sums to fill two units with a latency of four.
constexpr size_t kFmaChains = 12;

#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline float fma_avx512() {
  __m512 sum[kFmaChains];
  for (auto& s : sum) s = _mm512_set1_ps(1.0f);
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  for (size_t i = 0; i < kFmaSteps; ++i) {
    for (auto& s : sum) s = _mm512_fmadd_ps(s, a, b);
  }
  for (size_t i = 1; i < kFmaChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) inline float fma_avx2() {
  __m256 sum[kFmaChains];
  for (auto& s : sum) s = _mm256_set1_ps(1.0f);
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
  for (size_t i = 0; i < kFmaSteps; ++i) {
    for (auto& s : sum) s = _mm256_fmadd_ps(s, a, b);
  }
  for (size_t i = 1; i < kFmaChains; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  return _mm256_cvtss_f32(sum[0]);
}
#endif

/// f32 operations per second (an FMA is two) of all the pool's threads from registers; 0 where the machine
/// has neither AVX2 nor AVX-512.
inline double fma_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  const bool wide = __builtin_cpu_supports("avx512f");
  if (!wide && !__builtin_cpu_supports("avx2")) return 0;
  std::vector<float> results(pool.threads());
  std::atomic<size_t> started{0};
  const double seconds = median_seconds(5, [&] {
    started = 0;
    pool.parallel_for(pool.threads(), [&](size_t task, size_t) {
      // A task each: a thread that took two would halve the figure.
      ++started;
      const auto begin = std::chrono::steady_clock::now();
      while (started < pool.threads() &&
             std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(5)) {
      }
      results[task] = wide ? fma_avx512() : fma_avx2();
    });
  });
  const double lanes = wide ? 16 : 8;
  return 2 * lanes * static_cast<double>(kFmaSteps * kFmaChains * pool.threads()) / seconds;
#else
  (void)pool;
  return 0;
#endif
}

}  // namespace sida::bench
