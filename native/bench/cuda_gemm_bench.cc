// Products with the experts of Switch-base (768 → 3072 and back) and, in the formats of GGUF files too, of OLMoE-7B
// (2048 → 1024 and back) on a cuda device, each launch with others of so many matrices that no cache holds them, beside
// what the device gives at most, which every round measures again: a copy inside its memory, reads and writes counted,
// and the tensor cores' instruction from registers. Bytes are the weights', operations 2 · rows · n · k; formats other
// than f32 take two of the instruction for each, q4_k more for the sums of inputs.
//   cuda_gemm_bench [--rounds N] [--megabytes N of each format and expert] [--only SUBSTRING] [--json]
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#ifdef SIDA_WITH_CUDA
#include "bench_options.h"
#include "cuda_timing.h"
#include "device/cuda/mma_peak.h"
#include "ops/cuda/gemm.h"
#include "support/random_floats.h"
#include "support/weight_formats.h"

namespace {

using namespace sida;

struct ExpertShape {
  size_t d, ff;
};
constexpr ExpertShape kSwitchBase{768, 3072}, kOlmoe{2048, 1024};
constexpr size_t kMaxWidth = 3072;
/// Rows of a launch and of a case: what bounds the time that many rows take.
constexpr size_t kLaunchRows = 16384, kCaseRows = 65536;

/// Copies of one packed (n, k) matrix in the device's memory, far more than its caches hold.
struct Matrices {
  WeightFormat format;
  size_t n, k, bytes, count;
  std::byte* memory;

  Matrices(WeightFormat format_, size_t n_, size_t k_, size_t max_bytes)
      : format(format_),
        n(n_),
        k(k_),
        bytes(panel_matrix_bytes(n, k, format)),
        count(std::max<size_t>(max_bytes / bytes, 1)) {
    const std::vector<std::byte> packed = random_panels(format, n, k, 1);
    memory = device_memory(count * bytes);
    for (size_t i = 0; i < count; ++i) {
      require_success(cudaMemcpy(memory + i * bytes, packed.data(), bytes, cudaMemcpyHostToDevice), "weights");
    }
  }
};

struct Case {
  const Matrices* matrices;
  size_t rows, products;
  std::vector<double> seconds = {}, copy_share = {}, mma_share = {};

  std::string name() const {
    return std::string(weight_type_name(matrices->format.type)) + " " + std::to_string(matrices->k) + " to " +
           std::to_string(matrices->n);
  }
  size_t used() const { return std::min(matrices->count, std::max(products, kCaseRows / rows)); }
  double bytes() const { return static_cast<double>(used() * matrices->bytes); }
  double operations() const { return 2.0 * static_cast<double>(used() * rows * matrices->n * matrices->k); }

  void launch(const float* x, float* y) const {
    std::vector<cuda::Product> list;
    for (size_t i = 0; i < used(); ++i) {
      const PanelMatrix w{matrices->memory + i * matrices->bytes, matrices->format, matrices->k, matrices->n};
      float* out = y + list.size() * rows * matrices->n;
      list.push_back({x, nullptr, 1, static_cast<uint32_t>(rows), w, out});
      if (list.size() < products && i + 1 < used()) continue;
      cuda::gemm(list, {matrices->k, matrices->n, Epilogue::kStore}, nullptr);
      list.clear();
    }
  }
};

std::vector<Case> all_cases(const std::vector<Matrices>& matrices, const std::string& only) {
  std::vector<Case> cases;
  for (const Matrices& m : matrices) {
    for (const size_t rows : {1, 2, 4, 8, 16, 64, 256, 1024}) {
      for (const size_t products : {size_t{1}, std::min(cuda::kMaxProducts, kLaunchRows / rows)}) {
        const Case c{&m, rows, products};
        if (c.name().find(only) != std::string::npos) cases.push_back(c);
      }
    }
  }
  return cases;
}

void print(const BenchOptions& options, const std::vector<Case>& cases, const cudaDeviceProp& device,
           const std::vector<double>& copies, const std::vector<double>& mmas) {
  if (options.json) {
    std::printf("{\"device\":\"%s\",\"rounds\":%zu,\"copyBytesPerSecond\":%.4g,\"mmaPerSecond\":%.4g,\"cases\":[",
                device.name, options.rounds, median(copies), median(mmas));
    for (const Case& c : cases) {
      const double seconds = median(c.seconds);
      std::printf("%s{\"format\":\"%s\",\"k\":%zu,\"n\":%zu,\"rows\":%zu,\"products\":%zu,", &c == &cases[0] ? "" : ",",
                  weight_type_name(c.matrices->format.type), c.matrices->k, c.matrices->n, c.rows, c.products);
      std::printf("\"bytesPerSecond\":%.4g,\"ofCopy\":%.4f,\"operationsPerSecond\":%.4g,\"ofMma\":%.4f}",
                  c.bytes() / seconds, median(c.copy_share), c.operations() / seconds, median(c.mma_share));
    }
    std::printf("]}\n");
    return;
  }
  std::printf("%s: copies %.0f GB/s, mma %.1f TFLOP/s\n", device.name, median(copies) / 1e9, median(mmas) / 1e12);
  std::printf("%-18s %5s %9s %9s %8s %9s %8s\n", "weights", "rows", "products", "GB/s", "of copy", "TFLOP/s", "of mma");
  for (const Case& c : cases) {
    const double seconds = median(c.seconds);
    std::printf("%-18s %5zu %9zu %9.1f %7.1f%% %9.2f %7.1f%%\n", c.name().c_str(), c.rows, c.products,
                c.bytes() / seconds / 1e9, 100 * median(c.copy_share), c.operations() / seconds / 1e12,
                100 * median(c.mma_share));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const BenchOptions options = parse_bench_options(argc, argv);
  cudaDeviceProp device{};
  require_success(cudaGetDeviceProperties(&device, 0), "device");
  const size_t max_bytes = options.megabytes << 20;
  std::vector<Matrices> matrices;
  const auto add = [&](WeightFormat format, ExpertShape shape) {
    matrices.emplace_back(format, shape.ff, shape.d, max_bytes / 2);
    matrices.emplace_back(format, shape.d, shape.ff, max_bytes / 2);
  };
  const WeightFormat int8{WeightType::kInt8, 0}, int4{WeightType::kInt4, 64};
  for (const WeightFormat format : {kF32Format, kBf16Format, int8, int4}) add(format, kSwitchBase);
  for (const WeightFormat format : {kBf16Format, kMxfp4Format, kQ8_0Format, kQ4_0Format, kQ4_KFormat, kQ6_KFormat}) {
    add(format, kOlmoe);
  }
  std::vector<Case> cases = all_cases(matrices, options.only);
  const float* x = device_copy(random_floats(1024 * kMaxWidth, 2));
  auto* y = reinterpret_cast<float*>(device_memory(kLaunchRows * kMaxWidth * sizeof(float)));
  std::byte* copied = device_memory(max_bytes);
  require_success(cudaMemset(copied, 1, max_bytes), "memory");
  const auto multiprocessors = static_cast<unsigned>(device.multiProcessorCount);
  auto* sums = reinterpret_cast<float*>(device_memory(cuda::mma_peak_outputs(multiprocessors) * sizeof(float)));
  constexpr size_t kMmaSteps = 2000;
  DeviceTimer timer;
  std::vector<double> copies, mmas;
  for (size_t round = 0; round <= options.rounds; ++round) {
    for (Case& c : cases) {
      // Through all of that memory, so that nothing of the previous case is left in the caches.
      const double copy = copy_bandwidth(timer, copied, max_bytes);
      double operations = 0;
      const double mma_seconds =
          timer.seconds_of([&] { operations = cuda::mma_peak(multiprocessors, kMmaSteps, sums, nullptr); });
      const double mma = operations / mma_seconds;
      const double seconds = timer.seconds_of([&] { c.launch(x, y); });
      require_success(cudaGetLastError(), c.name().c_str());
      if (round == 0) continue;
      copies.push_back(copy);
      mmas.push_back(mma);
      c.seconds.push_back(seconds);
      c.copy_share.push_back(c.bytes() / seconds / copy);
      c.mma_share.push_back(c.operations() / seconds / mma);
    }
  }
  print(options, cases, device, copies, mmas);
}
#else
int main() {
  std::puts("cuda_gemm_bench: built without the cuda device");
  return 1;
}
#endif
