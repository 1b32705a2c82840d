// Engines on a GPU whose experts move between tiers: whenever they arrive, answers have the bits of the resident
// engine.
#include <cstdlib>
#include <optional>
#include <random>

#include "doctest/doctest.h"
#include "support/devices.h"
#include "support/error_checks.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/routing_table.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::fixture;
using testing::Inputs;
using testing::inputs_of;
using testing::random_table;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::Table;
using testing::TempDir;

const BatchLimits kLimits{320, 1024, 1, 3, true, ActivationFormat::kF32, DeviceKind::kCuda};

/// A pass of the encoder alone, by the routers or by `table`, with a plan of `loads`.
std::vector<float> encode(Engine& engine, const Inputs& in, const Table& table,
                          const std::vector<ExpertId>& loads) {
  ResidencyPlan plan;
  plan.loads = loads;
  Batch batch = testing::pass_of(0, in.ids, in.offsets, in.tokens);
  batch.routing = table.view();
  const Run out = run(engine, batch, plan);
  engine.release_sequences(in.ids);
  return out.hidden;
}

/// Every slot is filled with NaNs before an expert comes into it, while this lives.
struct PoisonedSlots {
  PoisonedSlots() { setenv("SIDA_POISON_SLOTS", "1", 1); }
  ~PoisonedSlots() { unsetenv("SIDA_POISON_SLOTS"); }
};

TEST_CASE("cuda engine: experts that move between disk, host and device change no bit, with poisoned slots neither") {
  if (cuda_state().devices == 0) return;
  std::optional<PoisonedSlots> poisoned;
  BatchLimits limits = kLimits;
  SUBCASE("slots as they are") {}
  SUBCASE("poisoned slots") { poisoned.emplace(); }
  SUBCASE("poisoned slots of the cpu device") {
    poisoned.emplace();
    limits.device = DeviceKind::kCpu;
  }
  const std::string directory = fixture("switch-tiny-untied");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Inputs in = inputs_of(Cases(directory), "c0.");
  Engine resident(testing::options_for(pack.path(), limits, 1.0));
  const size_t experts = resident.spec().experts();
  const size_t layers = testing::moe_layers_of(resident, 0);
  const Table routers{{}, {}, 0};
  const Table table = random_table(layers, in.tokens.size(), 3, experts, 7);
  const std::vector<float> exact = encode(resident, in, routers, {});
  const std::vector<float> predicted = encode(resident, in, table, {});
  std::mt19937 random(11);
  for (const double share : {0.0, 0.2, 0.6}) {
    if (testing::kFollowsThreads && share != 0.2) continue;
    for (const uint64_t host_blocks : {0, 3, 1000}) {
      if (testing::kFollowsThreads && host_blocks != 3) continue;
      CAPTURE(share);
      CAPTURE(host_blocks);
      EngineOptions options = testing::options_for(pack.path(), limits, share);
      options.host_bytes = host_blocks * resident.pack().experts.slot_bytes;
      options.reads = {2, 4096};  // chunks: what fills a slot comes from two threads
      Engine engine(options);
      for (int pass = 0; pass < 6; ++pass) {
        std::vector<ExpertId> loads;
        for (size_t i = 0; i < 8; ++i)
          loads.push_back(random() % static_cast<uint32_t>(engine.plan().experts));
        CHECK(same_bits(encode(engine, in, pass % 2 == 0 ? routers : table, loads),
                        pass % 2 == 0 ? exact : predicted));
        const uint64_t slots = 1 + random() % engine.plan().experts;
        engine.set_budget(engine.plan().fixed() + slots * engine.plan().slot);
        CHECK(engine.memory().used() <= engine.memory().budget());
      }
    }
  }
}

TEST_CASE("cuda engine: a step of as many sequences as a batch has tokens, all of one context") {
  if (cuda_state().devices == 0 || testing::kFollowsThreads) return;
  const std::string directory = fixture("switch-tiny-untied");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  constexpr int32_t kSequences = 64;
  BatchLimits limits = kLimits;
  limits.max_batch_tokens = kSequences;
  limits.kv_tokens = 16 * (kSequences + 4);
  limits.max_routing_k = 1;
  Engine engine(testing::options_for(pack.path(), limits, 1.0));
  const std::vector<int32_t> context{7}, offsets{0, 3}, tokens{5, 6, 7};
  testing::run(engine, testing::pass_of(0, context, offsets, tokens));
  std::vector<int32_t> sequences, contexts(kSequences, 7), starts{0}, ids(kSequences, 0), rows;
  for (int32_t i = 0; i < kSequences; ++i) {
    sequences.push_back(100 + i);
    starts.push_back(i + 1);
    rows.push_back(i);
  }
  const size_t experts = engine.spec().experts();
  const Table table = random_table(testing::moe_layers_of(engine, 1), kSequences, 1, experts, 3);
  Batch batch = testing::pass_of(1, sequences, starts, ids, contexts);
  batch.routing = table.view();
  batch.logit_rows = rows;
  const Run out = run(engine, batch);
  CHECK(out.logits.size() == rows.size() * engine.spec().vocab);
}

}  // namespace
}  // namespace sida
