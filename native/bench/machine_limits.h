// Peak rates of the machine: reads from memory, f32 fused multiply-adds, 8-bit products, tiles of AMX.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpu_features.h"
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

/// Bytes per second that the threads read together, fetching `ahead` bytes before they need them.
inline double read_bandwidth(ThreadPool& pool, const std::byte* data, size_t bytes, size_t ahead) {
  std::vector<uint64_t> sums(pool.threads() * 8);
  const double seconds = seconds_of([&] {
    pool.parallel_for(sums.size(), [&](size_t task, size_t) {
      const auto* words = reinterpret_cast<const uint64_t*>(data);
      const size_t count = bytes / 8 / sums.size() / 8 * 8;
      uint64_t lane[8] = {};
      for (size_t i = task * count; i < (task + 1) * count; i += 8) {
        __builtin_prefetch(words + i + ahead / 8, 0, 2);
        for (size_t j = 0; j < 8; ++j) lane[j] += words[i + j];
      }
      for (const uint64_t value : lane) sums[task] += value;
    });
  });
  // Used, so that the compiler computes the sums.
  volatile uint64_t kept = sums[0];
  (void)kept;
  return static_cast<double>(bytes) / seconds;
}

/// The highest rate of several ways to read.
inline double read_bandwidth(ThreadPool& pool, const std::byte* data, size_t bytes) {
  double best = 0;
  for (const size_t ahead : {0, 4096, 16384}) best = std::max(best, read_bandwidth(pool, data, bytes, ahead));
  return best;
}

#if defined(__x86_64__)
// Ten chains hide the latency of two units of four cycles each. In assembler, because the compiler would keep the
// chains in memory.
#define SIDA_PEAK(name, isa, vector, instruction)                                                               \
  [[gnu::target(isa)]] inline void name(size_t steps, float* out) {                                             \
    vector a0{}, a1{}, a2{}, a3{}, a4{}, a5{}, a6{}, a7{}, a8{}, a9{}, x{};                                     \
    for (size_t i = 0; i < steps; ++i) {                                                                        \
      __asm__ volatile(                                                                                         \
          instruction " %10, %10, %0\n" instruction " %10, %10, %1\n" instruction " %10, %10, %2\n" instruction \
                      " %10, %10, %3\n" instruction " %10, %10, %4\n" instruction " %10, %10, %5\n" instruction \
                      " %10, %10, %6\n" instruction " %10, %10, %7\n" instruction " %10, %10, %8\n" instruction \
                      " %10, %10, %9\n"                                                                         \
          : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5), "+v"(a6), "+v"(a7), "+v"(a8), "+v"(a9)  \
          : "v"(x));                                                                                            \
    }                                                                                                           \
    *out = reinterpret_cast<const float*>(&a0)[0];                                                              \
  }
SIDA_PEAK(fma_avx512, "avx512f", __m512, "vfmadd231ps")
SIDA_PEAK(fma_avx2, "avx2,fma", __m256, "vfmadd231ps")
SIDA_PEAK(dot_vnni, "avx512f,avx512vnni", __m512i, "vpdpbusd")
#undef SIDA_PEAK

// Four tiles of sums hide the latency, as products of blocks have them. The numbers are arbitrary, since zeros may take
// less power.
struct alignas(64) WholeTiles {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
#define SIDA_TILE_PEAK(name, isa, instruction)                                                               \
  [[gnu::target(isa)]] inline void name(size_t steps, float*) {                                              \
    const WholeTiles shapes;                                                                                 \
    alignas(64) uint16_t numbers[16 * 32];                                                                   \
    /* As bf16 from 1 to 2, of either sign. */                                                               \
    for (size_t i = 0; i < 16 * 32; ++i) numbers[i] = 0x3f80 | (i * 40503 >> 3 & 0x807f);                    \
    __asm__ volatile(                                                                                        \
        "ldtilecfg %0\n tileloadd (%1,%2,1), %%tmm4\n tileloadd (%1,%2,1), %%tmm5\n"                         \
        "tileloadd (%1,%2,1), %%tmm6\n tileloadd (%1,%2,1), %%tmm7"                                          \
        :                                                                                                    \
        : "m"(shapes), "r"(numbers), "r"(size_t{64})                                                         \
        : "memory");                                                                                         \
    for (size_t i = 0; i < steps; ++i) {                                                                     \
      __asm__ volatile(instruction " %tmm6, %tmm4, %tmm0\n" instruction " %tmm7, %tmm4, %tmm1\n" instruction \
                                   " %tmm6, %tmm5, %tmm2\n" instruction " %tmm7, %tmm5, %tmm3");             \
    }                                                                                                        \
    __asm__ volatile("tilerelease");                                                                         \
  }
SIDA_TILE_PEAK(tiles_bf16, "amx-tile,amx-bf16", "tdpbf16ps")
SIDA_TILE_PEAK(tiles_int8, "amx-tile,amx-int8", "tdpbusd")
#undef SIDA_TILE_PEAK

inline double peak(ThreadPool& pool, void (*run)(size_t, float*), double operations_a_step, size_t steps = 2000000) {
  std::vector<float> out(pool.threads() * 16);
  const double seconds =
      seconds_of([&] { pool.parallel_for(pool.threads(), [&](size_t task, size_t) { run(steps, &out[task * 16]); }); });
  return static_cast<double>(pool.threads() * steps) * operations_a_step / seconds;
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

/// Of the tiles of AMX.
inline double bf16_tile_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (may_use_tiles()) return peak(pool, tiles_bf16, 4 * 16 * 16 * 32 * 2, 500000);
#endif
  (void)pool;
  return 0;
}

inline double int8_tile_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (may_use_tiles()) return peak(pool, tiles_int8, 4 * 16 * 16 * 64 * 2, 500000);
#endif
  (void)pool;
  return 0;
}

}  // namespace sida
