// Passes that name the experts of later layers: the same answers at every budget, with experts that were prefetched.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/decoder_prompts.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/same_bits.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_prompts;
using testing::device_name;
using testing::devices;
using testing::fixture;
using testing::pass_of;
using testing::Prompt;
using testing::Run;
using testing::run;
using testing::TempDir;

struct Decoded {
  std::vector<float> logits;
  RunStats stats;
};

/// Runs each prompt's tokens one by one, several times over.
Decoded decode(Engine& engine, const std::vector<Prompt>& prompts, size_t look_ahead) {
  Decoded decoded{};
  for (int round = 0; round < 3; ++round) {
    for (const Prompt& prompt : prompts) {
      const std::vector<int32_t> sequence{1}, offsets{0, 1}, row{0};
      for (const int32_t token : prompt.tokens) {
        const std::vector<int32_t> tokens{token};
        Batch batch = pass_of(0, sequence, offsets, tokens);
        batch.logit_rows = row;
        batch.look_ahead = look_ahead;
        const Run out = run(engine, batch);
        decoded.logits.insert(decoded.logits.end(), out.logits.begin(), out.logits.end());
        decoded.stats.needed += out.stats.needed;
        decoded.stats.prefetched += out.stats.prefetched;
        decoded.stats.late += out.stats.late;
        decoded.stats.prefetches_begun += out.stats.prefetches_begun;
        decoded.stats.prefetches_foreseen += out.stats.prefetches_foreseen;
      }
      engine.release_sequences(sequence);
    }
  }
  engine.check_integrity();
  return decoded;
}

/// What fails for any device: other logits than those of an engine with all experts.
uint64_t check_same(const std::string& pack, DeviceKind kind, const std::vector<Prompt>& prompts,
                    std::initializer_list<double> shares, std::initializer_list<size_t> distances) {
  BatchLimits limits{64, 1024, 2};
  limits.device = kind;
  Engine resident(testing::options_for(pack, limits, 1));
  const Decoded expected = decode(resident, prompts, 0);
  uint64_t foreseen = 0;
  for (const double share : shares) {
    for (const size_t look_ahead : distances) {
      CAPTURE(share);
      CAPTURE(look_ahead);
      Engine engine(testing::options_for(pack, limits, share));
      const Decoded decoded = decode(engine, prompts, look_ahead);
      CHECK(testing::same_bits(decoded.logits, expected.logits));
      CHECK(decoded.stats.prefetches_begun == decoded.stats.prefetches_foreseen);
      foreseen += decoded.stats.prefetched + decoded.stats.late;
    }
  }
  CHECK(decode(resident, prompts, 1).stats.prefetches_begun == 0);
  return foreseen;
}

TEST_CASE("look-ahead: the same logits at every budget and distance, with experts prefetched for later layers") {
  for (const std::string name : {"olmoe-tiny", "qwen3-moe-tiny", "deepseek-v3-tiny"}) {
    CAPTURE(name);
    const std::string directory = fixture(name);
    TempDir pack;
    testing::write_pack(directory, pack.path());
    const Cases cases(directory);
    std::vector<Prompt> prompts = decoder_prompts(cases, directory);
    CHECK(check_same(pack.path(), DeviceKind::kCpu, prompts, {0.0, 0.5}, {1, 3}) > 0);
    // Other devices may be emulated, and slow.
    prompts.resize(1);
    prompts[0].tokens.resize(std::min<size_t>(prompts[0].tokens.size(), 8));
    for (const DeviceKind kind : devices()) {
      CAPTURE(device_name(kind));
      if (kind != DeviceKind::kCpu) check_same(pack.path(), kind, prompts, {0.5}, {2});
    }
  }
}

}  // namespace
}  // namespace sida
