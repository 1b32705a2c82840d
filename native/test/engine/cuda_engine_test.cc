// Engines on a GPU whose experts move between tiers: whenever they arrive, answers have the bits of the resident
// engine.
#include "support/checkpoint_directory.h"
#include "support/oracle_cases.h"
#include "support/routing_table.h"
#ifdef SIDA_CUDA_EMULATED
#include "emulation_control.h"
#endif

namespace {

const BatchLimits kLimits{320, 1024, 1, 3, true, ActivationFormat::kF32, DeviceKind::kCuda};

/// A pass of the encoder alone, by the routers or by `table`, with a plan of `loads`.
std::vector<float> encode(Engine& engine, const Case& c, const Table& table, const std::vector<ExpertId>& loads) {
  ResidencyPlan plan;
  plan.loads = loads;
  Batch batch = pass_of(0, c.ids, c.offsets, c.tokens);
  batch.routing = table.view();
  const Run out = run(engine, batch, plan);
  engine.release_sequences(c.ids);
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
  const PackedFixture f("switch-tiny-untied");
  const Case& c = f.list[0];
  Engine resident = f.open(limits);
  const Table routers{{}, {}, 0};
  const Table table = random_table(moe_layers_of(resident, 0), c.tokens.size(), 3, resident.spec().experts(), 7);
  const std::vector<float> exact = encode(resident, c, routers, {}), predicted = encode(resident, c, table, {});
  std::mt19937 random(11);
  for (const auto& [share, host_blocks] : grid(std::vector{0.0, 0.2, 0.6}, Sizes{0, 3, 1000})) {
    if (kFollowsThreads && (share != 0.2 || host_blocks != 3)) continue;
    CASE(share, host_blocks);
    EngineOptions options = f.options(limits, share);
    options.host_bytes = host_blocks * resident.pack().experts.slot_bytes;
    options.reads = {2, 4096};  // chunks: what fills a slot comes from two threads
    Engine engine(options);
    for (int pass = 0; pass < 6; ++pass) {
      std::vector<ExpertId> loads;
      for (size_t i = 0; i < 8; ++i) loads.push_back(random() % static_cast<uint32_t>(engine.plan().experts));
      const bool routed = pass % 2 == 0;
      CHECK(same_bits(encode(engine, c, routed ? routers : table, loads), routed ? exact : predicted));
      const uint64_t slots = 1 + random() % engine.plan().experts;
      engine.set_budget(engine.plan().fixed() + slots * engine.plan().slot);
      CHECK(engine.memory().used() <= engine.memory().budget());
    }
  }
}

TEST_CASE("cuda engine: a step of as many sequences as a batch has tokens, all of one context") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  constexpr int32_t kSequences = 64;
  BatchLimits limits = kLimits;
  limits.max_batch_tokens = kSequences;
  limits.kv_tokens = 16 * (kSequences + 4);
  limits.max_routing_k = 1;
  Engine engine = PackedFixture("switch-tiny-untied").open(limits);
  const std::vector<int32_t> context{7}, offsets{0, 3}, tokens{5, 6, 7};
  run(engine, pass_of(0, context, offsets, tokens));
  const std::vector<int32_t> rows = first_numbers(kSequences), starts = first_numbers(kSequences + 1);
  const std::vector<int32_t> contexts(kSequences, 7), ids(kSequences, 0);
  std::vector<int32_t> sequences = rows;
  for (int32_t& id : sequences) id += 100;
  const Table table = random_table(moe_layers_of(engine, 1), kSequences, 1, engine.spec().experts(), 3);
  Batch batch = pass_of(1, sequences, starts, ids, contexts);
  batch.routing = table.view();
  batch.logit_rows = rows;
  CHECK(run(engine, batch).logits.size() == rows.size() * engine.spec().vocab);
}

#ifdef SIDA_CUDA_EMULATED

/// The runtime's calls for one decoded token of a model of zeros, whose experts are resident.
emulation::Calls calls_of_token(const std::string& config, WeightFormat format, size_t route_ahead, double share,
                                bool alone) {
  const CheckpointDirectory model(config);
  model.write_tensors(tiny_tensors(config));
  const TempDir pack;
  write_pack(model.path(), pack.path(), format, format);
  BatchLimits limits = kLimits;
  limits.device_passes = alone;
  Engine engine(options_for(pack.path(), limits, share));
  const size_t stack = engine.spec().stacks.size() - 1;
  const std::vector<int32_t> encoded{0}, ids{1}, offsets{0, 1}, token{5}, parents{stack == 0 ? kNoParent : 0};
  if (stack > 0) run(engine, pass_of(0, encoded, offsets, token));
  Batch batch = pass_of(stack, ids, offsets, token, parents);
  const Pick pick{0, {}, 0};
  batch.picks = {&pick, 1};
  batch.route_ahead = route_ahead;
  PickedToken picked;
  std::vector<uint16_t> dispatch(moe_layers_of(engine, stack) * engine.spec().top_k());
  std::vector<uint8_t> found(moe_layers_of(engine, stack) * engine.spec().experts());
  BatchOutput output;
  output.picked = {&picked, 1};
  output.dispatch = dispatch.data();
  output.found = found.data();
  // The host runs passes until one has read nothing from the disk; then a shape is captured when it is seen again.
  for (int i = 0; i < 4; ++i) engine.run(batch, {}, output);
  const emulation::Calls before = emulation::calls();
  engine.run(batch, {}, output);
  const emulation::Calls after = emulation::calls();
  return {after.launches - before.launches, after.copies - before.copies, after.waits - before.waits};
}

/// The calls that `more` needs for its further layers.
emulation::Calls difference(const std::string& fewer, const std::string& more, WeightFormat format,
                            size_t route_ahead = 0, double share = 1, bool alone = false) {
  const emulation::Calls a = calls_of_token(fewer, format, route_ahead, share, alone);
  const emulation::Calls b = calls_of_token(more, format, route_ahead, share, alone);
  return {b.launches - a.launches, b.copies - a.copies, b.waits - a.waits};
}

std::string with_number(std::string config, const std::string& name, int number) {
  const size_t at = config.find("\"" + name + "\":") + name.size() + 3;
  return config.replace(at, config.find_first_of(",}", at) - at, std::to_string(number));
}

TEST_CASE("cuda engine: launches, copies and waits that a layer adds to a decoded token") {
  for (const WeightFormat format : {kBf16Format, kF32Format}) {
    CASE(format);
    for (const auto& [family, launches] : std::map<std::string, size_t>{{"qwen3_moe", 8}, {"olmoe", 8}}) {
      CASE(family);
      const std::string config = tiny_family_config(family);
      const std::string longer = with_number(config, "num_hidden_layers", 3);
      const emulation::Calls calls = difference(config, longer, format);
      CHECK(calls.launches == launches);
      CHECK(calls.copies == 1);
      CHECK(calls.waits == 1);
      // Each layer routes for the next one.
      const emulation::Calls ahead = difference(config, longer, format, 1, 0.7);
      CHECK(ahead.launches == launches + 2);
      CHECK(ahead.waits == 1);
      // Without the host the whole pass is one graph.
      const emulation::Calls alone = difference(config, longer, format, 0, 1, true);
      CHECK(alone.launches == 0);
      CHECK(alone.copies == 0);
      CHECK(alone.waits == 0);
    }
    // A decoder layer with experts and one without.
    const std::string config = tiny_family_config("switch_transformers");
    const std::string longer =
        with_number(with_number(config, "num_decoder_layers", 4), "num_sparse_decoder_layers", 2);
    const emulation::Calls calls = difference(config, longer, format);
    CHECK(calls.launches == 20);
    CHECK(calls.copies == 1);
    CHECK(calls.waits == 1);
  }
}

#endif  // SIDA_CUDA_EMULATED

}  // namespace
