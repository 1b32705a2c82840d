// What works on rows of activations, at Switch-base's sizes on a cuda device, beside a copy inside its
// memory, which every round measures again. Bytes are those that a kernel cannot do without. Each launch
// takes another part of the memory, so that the caches hold none of it, but where one launch needs more than
// that.
//   cuda_rows_bench [--rounds N] [--megabytes N] [--only SUBSTRING] [--json]
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#ifdef SIDA_WITH_CUDA
#include "bench_options.h"
#include "cuda_timing.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/routing.h"
#include "ops/cuda/rows.h"
#include "spec/kv_page.h"

namespace {

using namespace sida;

constexpr size_t kD = 768, kVocabulary = 32128, kExperts = 128, kContext = 400;
constexpr uint32_t kHeads = 12, kHeadWidth = 64, kWidth = kHeads * kHeadWidth;
constexpr size_t kRow = kD * sizeof(float);
// Enough launches that the time before the first does not count.
constexpr size_t kMaxLaunches = 64;

/// One kernel at one size: launch `number` works on a part of the memory, `step` bytes of it.
struct Case {
  std::string name;
  size_t tokens;
  size_t step;
  double bytes, operations;
  std::function<void(std::byte* part, size_t number)> launch;
  std::vector<double> seconds = {}, share = {};
};

float* floats(std::byte* memory) { return reinterpret_cast<float*>(memory); }

/// Sequences whose pages of one layer lie one after the other, from 0 on.
struct Batch {
  cuda::PagedBatch view;
  size_t pages = 0;

  Batch(size_t sequences, uint32_t count, uint32_t keys) {
    std::vector<cuda::PagedSequence> list;
    std::vector<cuda::RowTile> tiles;
    std::vector<uint32_t> table;
    const auto each = static_cast<uint32_t>((keys + kPageTokens - 1) / kPageTokens);
    for (uint32_t i = 0; i < sequences; ++i) {
      for (uint32_t row = 0; row < count; row += cuda::kTileRows) tiles.push_back({i, row});
      list.push_back({i * count, count, keys - count, keys, i * each});
      for (uint32_t page = 0; page < each; ++page) table.push_back(i * each + page);
    }
    pages = table.size();
    view = {device_copy(list), device_copy(tiles), tiles.size(), device_copy(table)};
  }
};

constexpr size_t kPageFloats = 2 * kWidth * kPageTokens;

cuda::CacheLayer layer_at(std::byte* memory) {
  return {memory, kPageFloats, kWidth * kPageTokens, kHeads, kHeadWidth, kHeadWidth};
}

void add_row_cases(std::vector<Case>& cases, size_t tokens, const float* weight, const int32_t* ids) {
  const size_t rows = tokens * kRow;
  const auto both = static_cast<double>(2 * rows);
  cases.push_back({"rms_norm", tokens, 2 * rows, both + kRow, 0, [=](std::byte* part, size_t) {
                     cuda::rms_norm(floats(part), weight, 1e-6f, tokens, kD, floats(part + rows), nullptr);
                   }});
  cases.push_back({"take_rows", tokens, 2 * rows, both, 0, [=](std::byte* part, size_t) {
                     cuda::take_rows(floats(part), ids, tokens, kD, 0.5f, floats(part + rows), nullptr);
                   }});
}

/// Each launch looks up other `words` (kMaxLaunches · tokens).
void add_embed_cases(std::vector<Case>& cases, size_t tokens, const int32_t* words) {
  for (const WeightFormat format : {kF32Format, kBf16Format, WeightFormat{WeightType::kInt8, 0}}) {
    const size_t bytes = panel_matrix_bytes(kVocabulary, kD, format), rows = tokens * kRow;
    std::byte* weights = device_memory(bytes);
    require_success(cudaMemset(weights, 0, bytes), "weights");
    const double read = static_cast<double>(tokens * bytes) / kVocabulary;
    cases.push_back({std::string("embed ") + weight_type_name(format.type), tokens, rows,
                     read + static_cast<double>(rows), 0, [=](std::byte* part, size_t number) {
                       cuda::embed({weights, format, kD, kVocabulary}, words + number * tokens, tokens, 1.0f,
                                   floats(part), nullptr);
                     }});
  }
}

void add_routing_cases(std::vector<Case>& cases, size_t tokens, uint16_t* expert, float* alpha,
                       const uint32_t* positions) {
  const size_t logits = tokens * kExperts * sizeof(float), rows = tokens * kRow;
  cases.push_back({"choose", tokens, logits, static_cast<double>(logits + tokens * 6), 0, [=](std::byte* part, size_t) {
                     cuda::choose(floats(part), tokens, kExperts, {}, expert, alpha, nullptr);
                   }});
  cases.push_back({"add_expert_outputs", tokens, 2 * rows, static_cast<double>(3 * rows + tokens * 8), 0,
                   [=](std::byte* part, size_t) {
                     cuda::add_expert_outputs(floats(part), positions, alpha, tokens, 1, kD, floats(part + rows),
                                              nullptr);
                   }});
}

/// Decoding steps of `sequences` sequences where `count` is 1, else whole sequences as the encoder has them.
void add_attention_cases(std::vector<Case>& cases, size_t sequences, uint32_t count, uint32_t keys,
                         const cuda::AttentionBias& bias) {
  const Batch batch(sequences, count, keys);
  const size_t tokens = sequences * count, rows = tokens * kWidth * sizeof(float);
  const size_t cache = batch.pages * kPageFloats * sizeof(float);
  const auto read = static_cast<double>(2 * sequences * keys * kWidth * sizeof(float) + 2 * rows);
  const bool decode = count == 1;
  cases.push_back(
      {decode ? "attention, 1 row" : "attention, tiles", tokens, rows + cache, read,
       4.0 * static_cast<double>(tokens) * keys * kWidth, [=](std::byte* part, size_t) {
         cuda::attention(layer_at(part + rows), batch.view, floats(part), {kHeads, 1, bias, decode}, nullptr);
       }});
  const auto both = static_cast<double>(2 * rows);
  cases.push_back({"write_keys", tokens, rows + cache, both, 0, [=](std::byte* part, size_t) {
                     cuda::write_keys(layer_at(part + rows), batch.view, floats(part), nullptr);
                   }});
  cases.push_back({"write_values", tokens, rows + cache, both, 0, [=](std::byte* part, size_t) {
                     cuda::write_values(layer_at(part + rows), batch.view, floats(part), nullptr);
                   }});
}

std::vector<Case> all_cases(size_t memory_bytes) {
  std::mt19937 random(1);
  constexpr size_t kMax = 2048;
  std::vector<int32_t> ids(kMax), words(kMaxLaunches * kMax);
  std::vector<uint32_t> positions(kMax);
  for (size_t i = 0; i < kMax; ++i) {
    ids[i] = static_cast<int32_t>(i);
    positions[i] = static_cast<uint32_t>(i);
  }
  for (int32_t& word : words) word = static_cast<int32_t>(random() % kVocabulary);
  const float* weight = device_copy(std::vector<float>(kD, 1));
  auto* expert = device_copy(std::vector<uint16_t>(kMax));
  auto* alpha = device_copy(std::vector<float>(kMax, 1));
  constexpr size_t kStride = 2 * kMax + 32;
  const float* biases = device_copy(std::vector<float>(kHeads * kStride));
  const cuda::AttentionBias bias{biases + kMax, kStride};
  const int32_t* device_words = device_copy(words);
  const int32_t* device_ids = device_copy(ids);
  const uint32_t* device_positions = device_copy(positions);
  std::vector<Case> cases;
  for (const size_t tokens : {1, 16, 400, 2048}) {
    add_row_cases(cases, tokens, weight, device_ids);
    add_embed_cases(cases, tokens, device_words);
    add_routing_cases(cases, tokens, expert, alpha, device_positions);
    if (tokens <= 16) {
      add_attention_cases(cases, tokens, 1, kContext, bias);
    } else {
      add_attention_cases(cases, 1, static_cast<uint32_t>(tokens), static_cast<uint32_t>(tokens), bias);
    }
  }
  std::erase_if(cases, [&](const Case& c) {
    if (c.step <= memory_bytes) return false;
    std::fprintf(stderr, "%s of %zu tokens left out: needs %zu bytes\n", c.name.c_str(), c.tokens, c.step);
    return true;
  });
  return cases;
}

void print(const BenchOptions& options, const std::vector<Case>& cases, const std::vector<double>& copies) {
  cudaDeviceProp device{};
  require_success(cudaGetDeviceProperties(&device, 0), "device");
  if (options.json) {
    std::printf("{\"device\":\"%s\",\"rounds\":%zu,\"copyBytesPerSecond\":%.4g,\"cases\":[", device.name,
                options.rounds, median(copies));
    for (const Case& c : cases) {
      const double seconds = median(c.seconds);
      std::printf("%s{\"kernel\":\"%s\",\"tokens\":%zu,\"seconds\":%.4g,\"bytesPerSecond\":%.4g,\"ofCopy\":%.4f",
                  &c == &cases[0] ? "" : ",", c.name.c_str(), c.tokens, seconds, c.bytes / seconds, median(c.share));
      std::printf(",\"operationsPerSecond\":%.4g}", c.operations / seconds);
    }
    std::printf("]}\n");
    return;
  }
  std::printf("%s: copies %.0f GB/s\n", device.name, median(copies) / 1e9);
  std::printf("%-20s %7s %9s %9s %9s %9s\n", "kernel", "tokens", "us", "GB/s", "of copy", "GFLOP/s");
  for (const Case& c : cases) {
    const double seconds = median(c.seconds);
    std::printf("%-20s %7zu %9.2f %9.1f %8.1f%% %9.1f\n", c.name.c_str(), c.tokens, seconds * 1e6,
                c.bytes / seconds / 1e9, 100 * median(c.share), c.operations / seconds / 1e9);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const BenchOptions options = parse_bench_options(argc, argv);
  int devices = 0;
  require_success(cudaGetDeviceCount(&devices), "devices");
  const size_t bytes = options.megabytes << 20;
  std::byte* memory = device_memory(bytes);
  require_success(cudaMemset(memory, 0, bytes), "memory");
  std::vector<Case> cases = all_cases(bytes);
  std::erase_if(cases, [&](const Case& c) { return c.name.find(options.only) == std::string::npos; });
  DeviceTimer timer;
  std::vector<double> copies;
  for (size_t round = 0; round <= options.rounds; ++round) {
    for (Case& c : cases) {
      // Through all of the memory, so that nothing of the previous kernel is left in the caches.
      const double copy = copy_bandwidth(timer, memory, bytes);
      const size_t step = (c.step + 255) / 256 * 256;
      const size_t launches = std::clamp<size_t>(bytes / step, 1, kMaxLaunches);
      // Spread, so that a launch finds nothing that the one before it left.
      const size_t apart = std::max(step, bytes / launches / 256 * 256);
      const double seconds = timer.seconds_of([&] {
        for (size_t i = 0; i < launches; ++i) c.launch(memory + i * apart, i);
      });
      require_success(cudaGetLastError(), c.name.c_str());
      if (round == 0) continue;
      copies.push_back(copy);
      c.seconds.push_back(seconds / static_cast<double>(launches));
      c.share.push_back(c.bytes / c.seconds.back() / copy);
    }
  }
  print(options, cases, copies);
}
#else
int main() {
  std::puts("cuda_rows_bench: built without the cuda device");
  return 1;
}
#endif
