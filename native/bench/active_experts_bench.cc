// The grouped feed-forward part of one MoE layer: the same tokens, spread evenly over more and more experts, weights
// from memory. Beside table 1 of "Who Says Elephants Can't Run".
//   active_experts_bench d ff tokens threads rounds megabytes active,active,…
// `megabytes` of copies of an expert are made in each format; the largest number of active experts must fit. Prints a
// line of JSON for each format, kind of activations and number of active experts, medians of the rounds.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <sstream>
#include <string>

#include "machine_limits.h"
#include "packed_experts.h"

namespace {

using namespace sida;

// Experts of one call, as a resident layer gives them.
constexpr size_t kGroup = 8;

struct Case {
  const PackedExperts* experts;
  ActivationFormat activations;
  size_t active;
  std::vector<double> ms, read_share;
};

std::vector<size_t> numbers(const std::string& text) {
  std::vector<size_t> values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) values.push_back(std::stoul(part));
  return values;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::puts("active_experts_bench d ff tokens threads rounds megabytes active,active,…");
    return argc > 1 && std::string(argv[1]) == "--help" ? 0 : 2;
  }
  const auto count = [&](int i) { return static_cast<size_t>(std::atoi(argv[i])); };
  const size_t d = count(1), ff = count(2), tokens = count(3), rounds = count(5);
  const size_t max_bytes = count(6) << 20;
  ThreadPool pool(count(4));
  const auto backend = make_cpu_backend();
  std::vector<PackedExperts> formats;
  for (const WeightFormat format :
       {kF32Format, kBf16Format, WeightFormat{WeightType::kInt8, 0}, WeightFormat{WeightType::kInt4, 64}}) {
    formats.emplace_back(*backend, format, d, ff, max_bytes);
  }
  std::vector<Case> cases;
  for (const PackedExperts& experts : formats) {
    const bool bf16 = experts.format == kBf16Format;
    std::vector<ActivationFormat> kinds{ActivationFormat::kF32};
    if (bf16 || quantized(experts.format)) kinds.push_back(bf16 ? ActivationFormat::kBf16 : ActivationFormat::kInt8);
    for (const ActivationFormat activations : kinds) {
      for (const size_t active : numbers(argv[7])) {
        if (active == 0 || active > tokens || active > experts.shuffled.size()) {
          std::fprintf(stderr, "%zu active experts: more than the %zu tokens or the %zu copies\n", active, tokens,
                       experts.shuffled.size());
          return 1;
        }
        cases.push_back({&experts, activations, active, {}, {}});
      }
    }
  }

  const std::vector<float> x = random_floats(tokens * d, 3);
  std::vector<float> inputs(tokens * d), hidden(tokens * (ff + 16)), y(tokens * d);
  const size_t rounded_size = std::max(rounded_bytes(tokens, std::max(d, ff), ActivationFormat::kInt8),
                                       rounded_bytes(tokens, std::max(d, ff), ActivationFormat::kBf16));
  // Aligned, as the engine's are: a row of a tile that lies in two cache lines takes twice as long.
  const std::span<std::byte> rounded(backend->allocate(rounded_size), rounded_size);
  std::vector<uint32_t> order(tokens);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(4);
  for (size_t round = 0; round <= rounds; ++round) {
    const double read = read_bandwidth(pool, formats[0].memory, max_bytes / 4096 * 4096 / 2);
    for (Case& c : cases) {
      std::vector<uint32_t> experts = c.experts->shuffled;
      std::shuffle(experts.begin(), experts.end(), random);
      const ExpertScratch scratch{tokens, inputs.data(), hidden.data(), ff + 16, {c.activations, rounded}};
      // Layer after layer over other copies, so that no cache holds the weights of the one before.
      const size_t layers = experts.size() / c.active;
      const double seconds = seconds_of([&] {
        for (size_t layer = 0; layer < layers; ++layer) {
          for (size_t begin = 0; begin < c.active; begin += kGroup) {
            std::vector<ExpertRows> group;
            for (size_t i = begin; i < std::min(begin + kGroup, c.active); ++i) {
              const size_t from = i * tokens / c.active, to = (i + 1) * tokens / c.active;
              group.push_back(c.experts->rows(experts[layer * c.active + i], &order[from], to - from, &y[from * d]));
            }
            expert_ffn(pool, group, x.data(), 1, Activation::kRelu, scratch);
          }
        }
      });
      if (round == 0) continue;
      c.ms.push_back(1000 * seconds / static_cast<double>(layers));
      c.read_share.push_back(static_cast<double>(layers * c.active * c.experts->bytes) / seconds / read);
    }
  }
  for (const Case& c : cases) {
    std::printf(
        "{\"format\": \"%s\", \"activations\": \"%s\", \"active\": %zu, \"ms\": %.4f, \"ofRead\": %.4f, "
        "\"expertBytes\": %zu}\n",
        weight_type_name(c.experts->format.type), activation_format_name(c.activations), c.active, median(c.ms),
        median(c.read_share), static_cast<size_t>(c.experts->bytes));
  }
}
