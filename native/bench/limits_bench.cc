// Peak rates of the machine, as one line of JSON: DRAM reads and f32 FMA from registers.
//   limits_bench [threads]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "device/backend.h"
#include "machine_limits.h"
#include "ops/cpu/kernels.h"

namespace {

template <class F>
double median_of_five(const F& measure) {
  measure();
  std::array<double, 5> values;
  for (double& value : values) value = measure();
  std::nth_element(values.begin(), values.begin() + 2, values.end());
  return values[2];
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sida;
  if (argc > 1 && std::strcmp(argv[1], "--help") == 0) {
    std::puts("limits_bench [threads]: DRAM read bytes/s and f32 FMA operations/s as one line of JSON");
    return 0;
  }
  const size_t threads = argc > 1 ? static_cast<size_t>(std::atoi(argv[1])) : std::thread::hardware_concurrency();
  ThreadPool pool(threads);
  const auto backend = make_cpu_backend();
  constexpr size_t kBytes = 600u << 20;
  std::byte* arena = backend->allocate(kBytes + 8192);
  std::memset(arena, 1, kBytes + 8192);
  const double read = median_of_five([&] { return read_bandwidth(pool, arena, kBytes); });
  const double fma = median_of_five([&] { return fma_peak(pool); });
  backend->deallocate(arena, kBytes + 8192);
  std::printf("{\"isa\": \"%s\", \"threads\": %zu, \"readBytesPerSecond\": %.0f, \"fmaFlopsPerSecond\": %.0f}\n",
              cpu_kernels().isa, pool.threads(), read, fma);
}
