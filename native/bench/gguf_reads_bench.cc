// Reads of experts from a pack (one extent for each expert) and in place from a GGUF file (three extents, laid out in
// panels after the read), past the page cache, in random order. Makes the file and the pack in a directory on the disk
// to measure: an OLMoE with experts of 2048 x 768, as Qwen3-30B-A3B has them.
//   gguf_reads_bench DIRECTORY [q4_0|q8_0|q4_k|q6_k|q5_k|q3_k|q2_k|q5_0|iq4_xs|iq3_xxs|iq2_xs|mxfp4]
// Prints bytes of blocks per second, the median of the rounds, for 1, 2 and 4 threads that read.
// The builder of files is also a test's.
#define DOCTEST_CONFIG_DISABLE
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/gguf_experts.h"
#include "checkpoint/pack_writer.h"
#include "device/backend.h"
#include "packed_experts.h"
#include "support/gguf_builder.h"
#include "support/weight_formats.h"

namespace {

using namespace sida;
using namespace sida::testing;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kWidth = 2048, kHidden = 768, kExperts = 128, kLayers = 2;
constexpr int kRounds = 7;

struct Type {
  const char* name;
  Dtype dtype;
  uint32_t number;  ///< in GGUF
};
constexpr Type kTypes[] = {
    {"q4_0", Dtype::kQ4_0, 2},       {"q8_0", Dtype::kQ8_0, 8},     {"q4_k", Dtype::kQ4_K, 12},
    {"q6_k", Dtype::kQ6_K, 14},      {"q5_k", Dtype::kQ5_K, 13},    {"q3_k", Dtype::kQ3_K, 11},
    {"q2_k", Dtype::kQ2_K, 10},      {"q5_0", Dtype::kQ5_0, 6},     {"iq4_xs", Dtype::kIq4Xs, 23},
    {"iq3_xxs", Dtype::kIq3Xxs, 18}, {"iq2_xs", Dtype::kIq2Xs, 17}, {"mxfp4", Dtype::kGgmlMxfp4, 39}};

void add(GgufBuilder& file, const std::string& name, std::vector<uint64_t> dimensions, const Type* type = nullptr) {
  file.zeros(name, dimensions);
  if (type == nullptr) return;
  const uint64_t count = std::accumulate(dimensions.begin(), dimensions.end(), uint64_t{1}, std::multiplies<>());
  const auto blocks = random_blocks(type->dtype, count / dimensions[0], dimensions[0], 1);
  file.tensors.back().type = type->number;
  file.tensors.back().data.assign(reinterpret_cast<const char*>(blocks.data()), blocks.size());
}

void write_model(const std::string& path, const Type& type) {
  GgufBuilder file;
  file.text("general.architecture", "olmoe").u32("olmoe.block_count", kLayers).u32("olmoe.context_length", 64);
  file.u32("olmoe.embedding_length", kWidth).u32("olmoe.feed_forward_length", kHidden);
  file.u32("olmoe.attention.head_count", 16).f32("olmoe.attention.layer_norm_rms_epsilon", 1e-5f);
  file.u32("olmoe.expert_count", kExperts).u32("olmoe.expert_used_count", 8);
  file.u32("tokenizer.ggml.eos_token_id", 2);
  add(file, "token_embd.weight", {kWidth, 64});
  add(file, "output.weight", {kWidth, 64});
  add(file, "output_norm.weight", {kWidth});
  for (uint64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"}) {
      add(file, prefix + name + ".weight", {kWidth});
    }
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      add(file, prefix + name + ".weight", {kWidth, kWidth});
    }
    add(file, prefix + "ffn_gate_inp.weight", {kWidth, kExperts});
    add(file, prefix + "ffn_gate_exps.weight", {kWidth, kHidden, kExperts}, &type);
    add(file, prefix + "ffn_up_exps.weight", {kWidth, kHidden, kExperts}, &type);
    add(file, prefix + "ffn_down_exps.weight", {kHidden, kWidth, kExperts}, &type);
  }
  std::ofstream(path, std::ios::binary) << file.build();
}

/// Bytes per second at which `threads` threads read every block once.
double rate(ExpertFile& file, uint64_t block, size_t threads, unsigned seed) {
  std::vector<uint64_t> order(file.bytes() / block);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::atomic<size_t> next{0};
  const auto backend = make_cpu_backend();
  std::vector<std::byte*> buffers;
  for (size_t i = 0; i < threads; ++i) buffers.push_back(backend->allocate(block));
  const auto start = Clock::now();
  {
    std::vector<std::jthread> readers;
    for (std::byte* buffer : buffers) {
      readers.emplace_back([&, buffer] {
        for (size_t i = next++; i < order.size(); i = next++) file.read(order[i] * block, block, buffer);
      });
    }
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::byte* buffer : buffers) backend->deallocate(buffer, block);
  return static_cast<double>(order.size() * block) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "gguf_reads_bench DIRECTORY [TYPE]\n"), 2;
  const std::string directory = std::string(argv[1]) + "/gguf-reads", wanted = argc > 2 ? argv[2] : "q4_k";
  const Type* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return wanted == t.name; });
  if (type == std::end(kTypes)) return std::fprintf(stderr, "unknown type %s\n", wanted.c_str()), 2;
  std::filesystem::create_directories(directory + "/pack");
  const std::string model = directory + "/model.gguf";
  write_model(model, *type);
  PackWriter writer(model, directory + "/pack", {}, {});
  writer.write_experts(0, kExperts * kLayers);
  writer.close();
  Pack pack = writer.pack();
  {
    const std::unique_ptr<ExpertFile> packed = open_experts(pack);
    pack.gguf = model;
    GgufExperts in_place(pack);
    std::printf("%s, blocks of %.2f MB\n", type->name, static_cast<double>(pack.experts.slot_bytes) / 1e6);
    for (const size_t threads : {1, 2, 4}) {
      std::vector<double> one, three;
      for (unsigned round = 0; round < kRounds; ++round) {
        one.push_back(rate(*packed, pack.experts.slot_bytes, threads, round));
        three.push_back(rate(in_place, pack.experts.slot_bytes, threads, round));
      }
      std::printf("threads %zu: pack %.2f GB/s, in place %.2f GB/s\n", threads, median(one) / 1e9, median(three) / 1e9);
    }
  }
  std::filesystem::remove_all(directory);
}
