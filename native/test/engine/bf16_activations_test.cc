// bf16 activations: a prompt has the same logits in chunks of any size, for any number of threads and at any budget.
#include "support/oracle_cases.h"

namespace {

TEST_CASE("bf16 activations: the same bits in chunks, with more threads and with few experts") {
  for (const char* name : {"olmoe-tiny", "gpt-oss-tiny", "deepseek-v3-tiny"}) {
    const PackedFixture f(name, kBf16Format, kBf16Format);
    const std::vector<int32_t>& prompt = f.list[0].tokens;
    const auto logits = [&](size_t threads, double share, size_t chunk, ActivationFormat activations) {
      BatchLimits limits{64, 1024, threads};
      limits.activations = activations;
      Engine engine = f.open(limits, share);
      return logits_in_chunks(engine, prompt, chunk);
    };
    const std::vector<float> expected = logits(1, 1, prompt.size(), ActivationFormat::kBf16);
    CHECK(!same_bits(expected, logits(1, 1, prompt.size(), ActivationFormat::kF32)));
    for (const auto& [threads, share, chunk] : grid(Sizes{1, 3}, std::vector{0.3, 1.0}, Sizes{1, 5, 17})) {
      CASE(name, threads, share, chunk);
      CHECK(same_bits(logits(threads, share, chunk, ActivationFormat::kBf16), expected));
    }
  }
}

}  // namespace
