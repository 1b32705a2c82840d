// bf16 activations: a prompt has the same logits in chunks of any size, for any number of threads and at any budget.
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/decoder_prompts.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/same_bits.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_prompts;
using testing::fixture;
using testing::logits_in_chunks;
using testing::TempDir;

TEST_CASE("bf16 activations: the same bits in chunks, with more threads and with few experts") {
  for (const char* name : {"olmoe-tiny", "gpt-oss-tiny", "deepseek-v3-tiny"}) {
    CAPTURE(std::string(name));
    TempDir packed;
    testing::write_pack(fixture(name), packed.path(), kBf16Format, kBf16Format);
    const std::vector<int32_t> prompt = decoder_prompts(Cases(fixture(name)), fixture(name)).front().tokens;
    const auto logits = [&](size_t threads, double share, size_t chunk, ActivationFormat activations) {
      BatchLimits limits{64, 1024, threads};
      limits.activations = activations;
      Engine engine(testing::options_for(packed.path(), limits, share));
      return logits_in_chunks(engine, prompt, chunk);
    };
    const std::vector<float> expected = logits(1, 1, prompt.size(), ActivationFormat::kBf16);
    CHECK(!testing::same_bits(expected, logits(1, 1, prompt.size(), ActivationFormat::kF32)));
    for (const size_t threads : {1, 3}) {
      for (const double share : {0.3, 1.0}) {
        for (const size_t chunk : {1, 5, 17}) {
          CAPTURE(threads);
          CAPTURE(share);
          CAPTURE(chunk);
          CHECK(testing::same_bits(logits(threads, share, chunk, ActivationFormat::kBf16), expected));
        }
      }
    }
  }
}

}  // namespace
}  // namespace sida
