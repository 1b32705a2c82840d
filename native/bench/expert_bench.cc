// The feed-forward part of Switch-base's experts (768 → 3072 → 768), weights from memory in shuffled order,
// beside the machine's own limits, which every round measures again.
//   expert_bench [--threads N] [--rounds N] [--megabytes N of each format] [--only SUBSTRING] [--json]
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench_options.h"
#include "device/backend.h"
#include "machine_limits.h"
#include "packed_experts.h"

namespace {

using namespace sida;

constexpr size_t kD = 768, kFf = 3072, kMaxRows = 256;
// Experts of one call, as a resident layer gives them.
constexpr size_t kGroup = 8;

struct Case {
  const PackedExperts* experts;
  ActivationFormat activations;
  size_t rows;
  std::vector<double> read_share, fma_share, vnni_share, amx_share, bytes, operations;

  std::string name() const {
    return std::string(weight_type_name(experts->format.type)) + " x " + activation_format_name(activations);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const BenchOptions options = parse_bench_options(argc, argv, {.threads = 2, .megabytes = 256});
  ThreadPool pool(options.threads);
  const auto backend = make_cpu_backend();
  const size_t max_bytes = options.megabytes << 20;
  std::vector<PackedExperts> formats;
  for (const WeightFormat format : {kF32Format,
                                    kBf16Format,
                                    kBf16cFormat,
                                    WeightFormat{WeightType::kInt8, 0},
                                    WeightFormat{WeightType::kInt4, 64},
                                    kMxfp4Format,
                                    kQ8_0Format,
                                    kQ4_0Format,
                                    kQ4_KFormat,
                                    kQ6_KFormat,
                                    kQ4_1Format,
                                    kQ5_0Format,
                                    kQ5_1Format,
                                    kQ5_KFormat,
                                    kQ3_KFormat,
                                    kQ2_KFormat,
                                    kIq4NlFormat,
                                    kIq4XsFormat,
                                    kIq2Format,
                                    kIq3XxsFormat,
                                    kIq3SFormat}) {
    formats.emplace_back(*backend, format, kD, kFf, max_bytes);
  }
  std::vector<Case> cases;
  for (const PackedExperts& experts : formats) {
    const bool bf16 = has_bf16(experts.format.type);
    std::vector<ActivationFormat> kinds{ActivationFormat::kF32};
    if (bf16 || quantized(experts.format)) kinds.push_back(bf16 ? ActivationFormat::kBf16 : ActivationFormat::kInt8);
    for (const ActivationFormat activations : kinds) {
      for (const size_t rows : {1, 2, 3, 4, 8, 16, 32, 64, 256}) {
        Case c{&experts, activations, rows, {}, {}, {}, {}, {}, {}};
        if (c.name().find(options.only) != std::string::npos) cases.push_back(c);
      }
    }
  }

  const std::vector<float> x = random_floats(kMaxRows * kD, 3);
  std::vector<float> inputs(kMaxRows * kD), hidden(kMaxRows * (kFf + 16)), y(kGroup * kMaxRows * kD);
  const size_t rounded_size = std::max(rounded_bytes(kMaxRows, kFf, ActivationFormat::kInt8),
                                       rounded_bytes(kMaxRows, kFf, ActivationFormat::kBf16));
  // Aligned, as the engine's are: a row of a tile that lies in two cache lines takes twice as long.
  const std::span<std::byte> rounded(backend->allocate(rounded_size), rounded_size);
  std::vector<uint32_t> order(kMaxRows);
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::mt19937 random(4);
  std::vector<double> reads, fmas, vnnis, bf16_tiles, int8_tiles;
  for (size_t round = 0; round <= options.rounds; ++round) {
    const double read = read_bandwidth(pool, formats[0].memory, max_bytes / 4096 * 4096 / 2);
    const double fma = fma_peak(pool), vnni = vnni_peak(pool);
    for (Case& c : cases) {
      std::vector<uint32_t> experts = c.experts->shuffled;
      std::shuffle(experts.begin(), experts.end(), random);
      // With many rows arithmetic is the limit, which fewer experts show too.
      if (c.rows > 16) experts.resize(std::min(experts.size(), std::max<size_t>(1, 512 / c.rows)));
      const ExpertScratch scratch{kMaxRows, inputs.data(), hidden.data(), kFf + 16, {c.activations, rounded}};
      const double seconds = seconds_of([&] {
        for (size_t begin = 0; begin < experts.size(); begin += kGroup) {
          std::vector<ExpertRows> group;
          for (size_t i = begin; i < std::min(begin + kGroup, experts.size()); ++i) {
            group.push_back(c.experts->rows(experts[i], order.data(), c.rows, &y[(i - begin) * kMaxRows * kD]));
          }
          expert_ffn(pool, group, x.data(), 1, Activation::kRelu, scratch);
        }
      });
      if (round == 0) continue;
      const double count = static_cast<double>(experts.size());
      c.bytes.push_back(count * static_cast<double>(c.experts->bytes) / seconds);
      c.operations.push_back(count * static_cast<double>(4 * c.rows * kD * kFf) / seconds);
      c.read_share.push_back(c.bytes.back() / read);
      c.fma_share.push_back(fma == 0 ? 0 : c.operations.back() / fma);
      c.vnni_share.push_back(vnni == 0 ? 0 : c.operations.back() / vnni);
      if (c.activations == ActivationFormat::kF32) {
        c.amx_share.push_back(0);
        continue;
      }
      // Within seconds the rate of the tiles can change fourfold, so it is measured right after a product.
      const bool bf16 = c.activations == ActivationFormat::kBf16;
      const double tile = bf16 ? bf16_tile_peak(pool) : int8_tile_peak(pool);
      (bf16 ? bf16_tiles : int8_tiles).push_back(tile);
      c.amx_share.push_back(tile == 0 ? 0 : c.operations.back() / tile);
    }
    if (round == 0) continue;
    reads.push_back(read);
    fmas.push_back(fma);
    vnnis.push_back(vnni);
  }

  if (options.json) {
    std::printf("{\"isa\":\"%s\",\"threads\":%zu,\"rounds\":%zu,\"readBytesPerSecond\":%.4g,", cpu_kernels().isa,
                options.threads, options.rounds, median(reads));
    std::printf("\"fmaPerSecond\":%.4g,\"vnniPerSecond\":%.4g,", median(fmas), median(vnnis));
    std::printf("\"amxBf16PerSecond\":%.4g,\"amxInt8PerSecond\":%.4g,\"cases\":[", median(bf16_tiles),
                median(int8_tiles));
    for (const Case& c : cases) {
      std::printf("%s{\"format\":\"%s\",\"activations\":\"%s\",\"rows\":%zu,\"bytesPerSecond\":%.4g,",
                  &c == &cases[0] ? "" : ",", weight_type_name(c.experts->format.type),
                  activation_format_name(c.activations), c.rows, median(c.bytes));
      std::printf("\"operationsPerSecond\":%.4g,\"ofRead\":%.4f,\"ofFma\":%.4f,\"ofVnni\":%.4f,\"ofAmx\":%.4f}",
                  median(c.operations), median(c.read_share), median(c.fma_share), median(c.vnni_share),
                  median(c.amx_share));
    }
    std::printf("]}\n");
    return 0;
  }
  std::printf("isa %s, %zu threads: reads %.1f GB/s, FMA %.0f GFLOP/s, VNNI %.0f GOP/s, AMX %.0f GFLOP/s, %.0f GOP/s\n",
              cpu_kernels().isa, options.threads, median(reads) / 1e9, median(fmas) / 1e9, median(vnnis) / 1e9,
              median(bf16_tiles) / 1e9, median(int8_tiles) / 1e9);
  std::printf("%-12s %5s %8s %9s %8s %8s %8s %8s\n", "format", "rows", "GB/s", "GOP/s", "of read", "of FMA", "of VNNI",
              "of AMX");
  for (const Case& c : cases) {
    std::printf("%-12s %5zu %8.1f %9.1f %7.0f%% %7.0f%% %7.0f%% %7.0f%%\n", c.name().c_str(), c.rows,
                median(c.bytes) / 1e9, median(c.operations) / 1e9, 100 * median(c.read_share),
                100 * median(c.fma_share), 100 * median(c.vnni_share), 100 * median(c.amx_share));
  }
}
