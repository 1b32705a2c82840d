// Passes that name the experts of later layers: the same answers at every budget, with experts that were prefetched.
#include "support/oracle_cases.h"

namespace {

struct Decoded {
  std::vector<float> logits;
  RunStats stats;
};

/// Runs each prompt's tokens one by one, several times over.
Decoded decode(Engine& engine, const std::vector<std::vector<int32_t>>& prompts, size_t look_ahead) {
  Decoded decoded{};
  for (const auto& [round, prompt] : grid(Sizes{0, 1, 2}, prompts)) {
    const std::vector<int32_t> sequence{1}, offsets{0, 1}, row{0};
    for (const int32_t token : prompt) {
      const std::vector<int32_t> tokens{token};
      Batch batch = pass_of(0, sequence, offsets, tokens);
      batch.logit_rows = row;
      batch.look_ahead = look_ahead;
      const Run out = run(engine, batch);
      decoded.logits.insert(decoded.logits.end(), out.logits.begin(), out.logits.end());
      decoded.stats.prefetched += out.stats.prefetched;
      decoded.stats.late += out.stats.late;
      decoded.stats.prefetches_begun += out.stats.prefetches_begun;
      decoded.stats.prefetches_foreseen += out.stats.prefetches_foreseen;
    }
    engine.release_sequences(sequence);
  }
  return decoded;
}

TEST_CASE("look-ahead: the same logits at every budget and distance, with experts prefetched for later layers") {
  for (const auto& [name, device] :
       grid(std::vector<const char*>{"olmoe-tiny", "qwen3-moe-tiny", "deepseek-v3-tiny"}, devices())) {
    const bool cpu = device == DeviceKind::kCpu;
    const PackedFixture f(name);
    std::vector<std::vector<int32_t>> prompts;
    for (const Case& c : f.list) prompts.push_back(c.tokens);
    // Other devices may be emulated, and slow.
    if (!cpu) prompts = {part_of(prompts[0], 0, std::min<size_t>(prompts[0].size(), 8))};
    const BatchLimits limits = limits_on(device, {64, 1024, 2});
    Engine resident = f.open(limits);
    const Decoded expected = decode(resident, prompts, 0);
    uint64_t foreseen = 0;
    for (const auto& [share, look_ahead] :
         grid(cpu ? std::vector{0.0, 0.5} : std::vector{0.5}, cpu ? Sizes{1, 3} : Sizes{2})) {
      CASE(name, device_name(device), share, look_ahead);
      Engine engine = f.open(limits, share);
      const Decoded decoded = decode(engine, prompts, look_ahead);
      CHECK(same_bits(decoded.logits, expected.logits));
      CHECK(decoded.stats.prefetches_begun == decoded.stats.prefetches_foreseen);
      foreseen += decoded.stats.prefetched + decoded.stats.late;
    }
    CHECK(decode(resident, prompts, 1).stats.prefetches_begun == 0);
    if (cpu) CHECK(foreseen > 0);
  }
}

}  // namespace
