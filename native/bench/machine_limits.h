// What the machine gives at most: reads from memory, f32 fused multiply-adds, 8-bit products.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sida {

template <class F>
double seconds_of(const F& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Bytes per second that the threads read together, each its own half, whole blocks of 64 KiB.
inline double read_bandwidth(ThreadPool& pool, const std::byte* data, size_t bytes) {
  std::vector<uint64_t> sums(pool.threads() * 8);
  const double seconds = seconds_of([&] {
    pool.parallel_for(sums.size(), [&](size_t task, size_t) {
      const auto* words = reinterpret_cast<const uint64_t*>(data);
      const size_t count = bytes / 8 / sums.size() / 8 * 8;
      uint64_t lane[8] = {};
      for (size_t i = task * count; i < (task + 1) * count; i += 8) {
        __builtin_prefetch(words + i + 512);
        for (size_t j = 0; j < 8; ++j) lane[j] += words[i + j];
      }
      for (const uint64_t value : lane) sums[task] += value;
    });
  });
  // Looked at, so that the sums are made.
  volatile uint64_t kept = sums[0];
  (void)kept;
  return static_cast<double>(bytes) / seconds;
}

#if defined(__x86_64__)
// Ten chains hide the latency of two units of four cycles each.

#define SIDA_PEAK(name, isa, vector, init, step)                    \
  [[gnu::target(isa)]] inline void name(size_t steps, float* out) { \
    vector acc[10];                                                 \
    for (auto& a : acc) a = init(1);                                \
    vector x = init(1);                                             \
    for (size_t i = 0; i < steps; ++i) {                            \
      for (auto& a : acc) {                                         \
        step;                                                       \
        __asm__ volatile("" : "+v"(a));                             \
      }                                                             \
      __asm__ volatile("" : "+v"(x));                               \
    }                                                               \
    for (size_t i = 1; i < 10; ++i) acc[0] = acc[i] + acc[0];       \
    *out = *reinterpret_cast<const float*>(&acc[0]);                \
  }
SIDA_PEAK(fma_avx512, "avx512f", __m512, _mm512_set1_ps, a = _mm512_fmadd_ps(x, x, a))
SIDA_PEAK(fma_avx2, "avx2,fma", __m256, _mm256_set1_ps, a = _mm256_fmadd_ps(x, x, a))
SIDA_PEAK(dot_vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8, a = _mm512_dpbusd_epi32(a, x, x))
#undef SIDA_PEAK

inline double peak(ThreadPool& pool, void (*run)(size_t, float*), double operations_a_step) {
  constexpr size_t kSteps = 2000000;
  std::vector<float> out(pool.threads() * 16);
  const double seconds = seconds_of(
      [&] { pool.parallel_for(pool.threads(), [&](size_t task, size_t) { run(kSteps, &out[task * 16]); }); });
  return static_cast<double>(pool.threads() * kSteps) * operations_a_step / seconds;
}
#endif

/// Operations (multiply and add are two) per second of all threads; 0 where the machine has no such
/// instructions.
inline double fma_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return peak(pool, fma_avx512, 10 * 16 * 2);
  if (__builtin_cpu_supports("fma")) return peak(pool, fma_avx2, 10 * 8 * 2);
#endif
  (void)pool;
  return 0;
}

inline double vnni_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512vnni")) return peak(pool, dot_vnni, 10 * 64 * 2);
#endif
  (void)pool;
  return 0;
}

}  // namespace sida
