// Passes that the device runs without the host: whatever moves meanwhile, answers have the bits of passes with it.
#include <set>

#include "support/oracle_cases.h"
#ifdef SIDA_CUDA_EMULATED
#include "emulation_control.h"
#endif

namespace {

const BatchLimits kDeviceLimits{64, 1024, 1, 4, true, ActivationFormat::kF32, DeviceKind::kCuda};

BatchLimits limits_with(bool device_passes, ActivationFormat activations) {
  BatchLimits limits = kDeviceLimits;
  limits.activations = activations;
  limits.device_passes = device_passes;
  return limits;
}

/// An engine whose host tier holds all experts.
Engine hosted(const PackedFixture& f, bool device_passes, double share,
              ActivationFormat activations = ActivationFormat::kF32, bool cpu_experts = false,
              SimulatedLink link = {}) {
  EngineOptions options = f.options(limits_with(device_passes, activations), share);
  options.link = link;
  options.cpu_experts.on = cpu_experts;
  const Pack pack = open_pack(f.pack.path());
  options.host_bytes = pack.experts.experts() * device_bytes(pack.experts.slot_bytes);
  if (cpu_experts) options.host_bytes += HostExperts::bytes(pack.experts, options.limits);
  return Engine(options);
}

struct Step {
  std::vector<float> logits;
  std::vector<uint16_t> dispatch;
  std::vector<uint8_t> found;
  RunStats stats;
};

/// One pass with the logits of all rows, and nothing that needs the host.
Step step(Engine& engine, Batch batch, const ResidencyPlan& plan = {}) {
  const size_t tokens = batch.tokens.size(), layers = moe_layers_of(engine, batch.stack);
  const std::vector<int32_t> rows = first_numbers(tokens);
  const bool head = batch.stack + 1 == engine.spec().stacks.size() && engine.spec().head.present;
  Step out;
  if (head) batch.logit_rows = rows;
  out.logits.resize(tokens * (head ? engine.spec().vocab : engine.spec().width));
  out.dispatch.resize(layers * tokens * engine.spec().top_k());
  out.found.resize(layers * engine.spec().experts());
  BatchOutput output;
  (head ? output.logits : output.hidden_states) = out.logits.data();
  output.dispatch = out.dispatch.data();
  output.found = out.found.data();
  out.stats = engine.run(batch, plan, output);
  engine.check_integrity();
  CHECK(engine.memory().used() <= engine.memory().budget());
  return out;
}

/// Prompts of some sequences, then steps that continue all of them by one token each.
struct Mix {
  std::vector<std::vector<int32_t>> prompts;
  size_t steps;

  template <class Before>
  std::vector<Step> run(Engine& engine, Before before) const {
    std::vector<Step> out;
    std::vector<int32_t> ids, last;
    for (size_t i = 0; i < prompts.size(); ++i) {
      ids.push_back(static_cast<int32_t>(i));
      const std::vector<int32_t> own{ids.back()}, offsets{0, static_cast<int32_t>(prompts[i].size())};
      out.push_back(step(engine, pass_of(engine.spec().stacks.size() - 1, own, offsets, prompts[i])));
      last.push_back(5 + ids.back());
    }
    const std::vector<int32_t> offsets = first_numbers(ids.size() + 1);
    for (size_t i = 0; i < steps; ++i) {
      before(i);
      out.push_back(step(engine, pass_of(engine.spec().stacks.size() - 1, ids, offsets, last)));
      for (int32_t& token : last) token = (token * 7 + 3) % 50 + 4;
    }
    engine.release_sequences(ids);
    return out;
  }
  std::vector<Step> run(Engine& engine) const {
    return run(engine, [](size_t) {});
  }
};

Mix mix_of(const PackedFixture& f, size_t steps) {
  std::vector<int32_t> tokens;
  for (const Case& c : f.list) tokens.insert(tokens.end(), c.tokens.begin(), c.tokens.end());
  return {{part_of(tokens, 0, 3), part_of(tokens, 3, 15), part_of(tokens, 1, 8)}, steps};
}

size_t count_alone(const std::vector<Step>& steps) {
  return static_cast<size_t>(std::ranges::count_if(steps, [](const Step& step) { return step.stats.alone; }));
}

void check_same(const std::vector<Step>& found, const std::vector<Step>& expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CASE(i);
    CHECK(same_bits(found[i].logits, expected[i].logits));
    CHECK(found[i].dispatch == expected[i].dispatch);
  }
}

/// Every slot is filled with NaNs before the host brings an expert into it, while this lives.
struct PoisonedSlots {
  PoisonedSlots() { setenv("SIDA_POISON_SLOTS", "1", 1); }
  ~PoisonedSlots() { unsetenv("SIDA_POISON_SLOTS"); }
};

TEST_CASE("device passes: answers have the bits of passes with the host, at any budget, with pins and resizes") {
  if (cuda_state().devices == 0) return;
  using Named = std::pair<const char*, WeightFormat>;
  for (const auto& [name, format] : {Named{"olmoe-tiny", kBf16Format}, Named{"qwen3-moe-tiny", kF32Format}}) {
    CASE(name);
    if (kFollowsThreads && format != kF32Format) continue;
    std::optional<PoisonedSlots> poisoned;
    if (format == kBf16Format) poisoned.emplace();
    const PackedFixture f(name, format);
    const size_t steps = kSanitized ? 6 : 20;
    const Mix mix = mix_of(f, steps);
    Engine resident = hosted(f, false, 1);
    const std::vector<Step> expected = mix.run(resident);
    CHECK(count_alone(expected) == 0);
    for (const double share : {1.0, 0.5}) {
      CASE(share);
      Engine engine = hosted(f, true, share);
      mix.run(engine);  // brings all experts to the host
      const std::vector<Step> alone = mix.run(engine);
      check_same(alone, expected);
      CHECK(count_alone(alone) > steps / 2);
      uint64_t moved = 0;
      for (const Step& each : alone) moved += each.stats.alone ? each.stats.bytes_moved : 0;
      CHECK((moved > 0) == (share < 1));
      // Pins, slots and budgets change between passes.
      std::mt19937 random(3);
      const auto experts = static_cast<uint32_t>(engine.plan().experts);
      const std::vector<Step> changed = mix.run(engine, [&](size_t) {
        const uint64_t slots = experts / 4 + random() % (experts - experts / 4);
        const std::vector<ExpertId> pinned{static_cast<ExpertId>(random() % experts)};
        engine.set_budget(engine.plan().fixed() + slots * engine.plan().slot);
        engine.store().pin(pinned, true);
        if (random() % 2 == 0) engine.store().pin(pinned, false);
      });
      check_same(changed, expected);
      CHECK(count_alone(changed) > 0);
      // Where a layer may find too few slots, the host serves.
      std::vector<ExpertId> all(experts);
      for (ExpertId id = 0; id < experts; ++id) all[id] = id;
      engine.store().pin(all, false);
      engine.set_budget(engine.plan().smallest());
      const std::vector<Step> fewest = mix.run(engine);
      check_same(fewest, expected);
      CHECK(count_alone(fewest) == 0);
    }
  }
}

TEST_CASE("device passes: families with shared experts, sigmoid routers, latent rows, windows, and recurrent states") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const std::vector<const char*> names{"qwen2-moe-tiny", "mixtral-tiny", "deepseek-v2-lite-tiny", "deepseek-v3-tiny",
                                       "glm4-moe-tiny",  "gpt-oss-tiny", "qwen3-next-tiny",       "gemma4-tiny"};
  for (const auto& [name, int8] : grid(names, kBoth)) {
    CASE(name, int8);
    const PackedFixture f = int8 ? PackedFixture(name, kInt8Format, kInt8Format) : PackedFixture(name);
    const ActivationFormat activations = int8 ? ActivationFormat::kInt8 : ActivationFormat::kF32;
    const Mix mix = mix_of(f, 4);
    Engine resident = hosted(f, false, 1, activations), engine = hosted(f, true, 0.6, activations);
    mix.run(engine);
    const std::vector<Step> alone = mix.run(engine);
    check_same(alone, mix.run(resident));
    CHECK(count_alone(alone) > 0);
  }
}

TEST_CASE("device passes: activations in 8 bits, unless the CPU computes what is missing") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  using Packed = std::pair<const char*, WeightFormat>;
  for (const auto& [name, experts] : {Packed{"olmoe-tiny", kInt8Format}, Packed{"gpt-oss-tiny", kMxfp4Format}}) {
    CASE(name);
    const PackedFixture f(name, experts, kInt8Format);
    const Mix mix = mix_of(f, 6);
    constexpr ActivationFormat kInt8 = ActivationFormat::kInt8;
    Engine resident = hosted(f, false, 1, kInt8);
    const std::vector<Step> expected = mix.run(resident);
    for (const auto& [share, cpu_experts] : grid(std::vector{1.0, 0.6}, kBoth)) {
      CASE(share, cpu_experts);
      Engine engine = hosted(f, true, share, kInt8, cpu_experts);
      mix.run(engine);
      const std::vector<Step> alone = mix.run(engine);
      check_same(alone, expected);
      CHECK((count_alone(alone) > 0) == (share == 1 || !cpu_experts));
    }
  }
}

TEST_CASE("device passes: an encoder, and a decoder that attends to it") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const PackedFixture f("switch-tiny-untied");
  const std::vector<int32_t> ids{0, 1}, offsets{0, 5, 9}, children{100, 101}, starts{0, 1, 2};
  const std::vector<int32_t> tokens{5, 9, 8, 31, 7, 40, 41, 6, 9};
  const auto passes = [&](Engine& engine) {
    std::vector<Step> out{step(engine, pass_of(0, ids, offsets, tokens))};
    std::vector<int32_t> last{0, 0};
    for (int i = 0; i < 5; ++i) {
      out.push_back(step(engine, pass_of(1, children, starts, last, ids)));
      last = {5 + i, 9 + 2 * i};
    }
    engine.release_sequences(ids);
    engine.release_sequences(children);
    return out;
  };
  Engine resident = hosted(f, false, 1), engine = hosted(f, true, 0.7);
  const std::vector<Step> expected = passes(resident);
  for (int round = 0; round < 3; ++round) check_same(passes(engine), expected);
  CHECK(count_alone(passes(engine)) == expected.size());
}

TEST_CASE("device passes: a pass that needs an expert from the disk is run again by the host") {
  if (cuda_state().devices == 0) return;
  const PackedFixture f("olmoe-tiny");
  Engine resident = hosted(f, false, 1), engine = hosted(f, true, 0.6);
  size_t stopped = 0, alone = 0;
  bool read = true;
  const std::vector<int32_t> id{0}, offsets{0, 1};
  for (int32_t pass = 0; pass < (kSanitized ? 12 : 40); ++pass) {
    const std::vector<int32_t> token{5 + pass / 3};
    const Step found = step(engine, pass_of(0, id, offsets, token));
    check_same({found}, {step(resident, pass_of(0, id, offsets, token))});
    alone += found.stats.alone;
    stopped += !read && !found.stats.alone;
    if (!found.stats.alone) read = found.stats.disk_reads > 0;
  }
  CHECK(stopped > 0);
  CHECK(alone > 0);
}

/// A plan for `experts` experts whose keys are all different.
struct RandomPlan {
  static constexpr double kExpendable = 10;
  std::vector<double> keys[3];
  std::vector<ExpertId> loads;

  RandomPlan(std::mt19937& random, size_t experts) {
    std::uniform_real_distribution<double> key(0, 4 * kExpendable);
    for (std::vector<double>& each : keys) {
      for (size_t id = 0; id < experts; ++id) each.push_back(key(random));
    }
    for (ExpertId id = 0; id < experts; ++id) loads.push_back(id);
    std::ranges::shuffle(loads, random);
    loads.resize(random() % experts);
  }
  ResidencyPlan view() const {
    return {
        .keys = keys[0], .keys_after = keys[1], .loads = loads, .expendable = kExpendable, .keys_unneeded = keys[2]};
  }
};

/// What the residency table does in passes whose loads end at once.
class Expected {
 public:
  explicit Expected(const ResidencySnapshot& now) : table_(now.state.size()) {
    for (uint32_t slot = 0; slot < now.slots; ++slot) table_.add_slot(slot);
    for (ExpertId id = 0; id < now.state.size(); ++id) {
      if (now.state[id] == 0) continue;
      table_.demand(id);
      table_.finish_load(id, true);
      table_.release(id);
      if (now.pinned[id] != 0) table_.pin({&id, 1});
    }
  }

  ResidencyStats run(const ResidencyPlan& plan, const std::vector<uint16_t>& dispatch, size_t layers) {
    table_.start_pass(plan);
    const size_t experts = table_.experts() / layers;
    for (size_t layer = 0; layer < layers; ++layer) {
      const auto own = part_of(dispatch, layer * dispatch.size() / layers, dispatch.size() / layers);
      const auto first = static_cast<ExpertId>(layer * experts);
      table_.begin_visit();
      for (const uint16_t index : std::set(own.begin(), own.end())) table_.need(first + index);
      table_.layer_runs(first, static_cast<ExpertId>(first + experts));
      while (const auto load = table_.next_demand(SIZE_MAX)) table_.finish_load(load->id, true);
      std::vector<ExpertId> prefetches;
      while (const auto load = table_.next_prefetch(kMostLayerPrefetches)) prefetches.push_back(load->id);
      table_.end_visit();
      for (const ExpertId id : prefetches) table_.finish_load(id, true);
    }
    return table_.take_stats();
  }
  std::vector<uint8_t> state() const { return table_.snapshot().state; }

 private:
  ResidencyTable table_;
};

TEST_CASE(
    "device passes: the device prefetches and evicts what the residency table would, and answers keep their bits") {
  if (cuda_state().devices == 0) return;
  const PoisonedSlots poisoned;
  const PackedFixture f("olmoe-tiny");
  Engine resident = hosted(f, false, 1), engine = hosted(f, true, 0.5);
  const size_t layers = moe_layers_of(engine, 0), experts = engine.plan().experts;
  const std::vector<int32_t> id{0}, start{0, 1}, token{5};
  // More than graphs are kept, so that some passes are launched and others replayed.
  const std::vector<int32_t> shapes[] = {{0, 1, 2}, {0, 2, 3}, {0, 1, 3}, {0, 1}, {0, 2}, {0, 3}};
  Batch all = pass_of(0, id, start, token);
  all.whole_layers = true;
  for (Engine* each : {&engine, &resident}) {
    step(*each, all);  // brings all experts to the host
    step(*each, pass_of(0, id, start, token));
  }
  std::mt19937 random(7);
  std::optional<Expected> table;
  ExpertId pinned = 0;
  uint64_t prefetches = 0, hits = 0, wasted = 0;
  for (int32_t i = 0; i < (kSanitized ? 16 : 60); ++i) {
    CASE(i);
    const std::vector<int32_t>& offsets = shapes[i / 8 % 2 == 0 ? 0 : i % 6];
    const std::vector<int32_t> ids = first_numbers(offsets.size() - 1);
    std::vector<int32_t> tokens{4 + i % 7, 30 + i % 5, 9};
    tokens.resize(static_cast<size_t>(offsets.back()));
    const Batch batch = pass_of(0, ids, offsets, tokens);
    if (i % 8 == 0) {
      engine.store().pin({&pinned, 1}, false);
      pinned = static_cast<ExpertId>(random() % experts);
      engine.store().pin({&pinned, 1}, true);
      const uint64_t slots = 13 + random() % (experts / 2);
      engine.set_budget(engine.plan().fixed() + slots * engine.plan().slot);
      check_same({step(engine, all)}, {step(resident, all)});
      table.emplace(engine.store().snapshot());
    }
    const RandomPlan plan(random, experts);
    const Step found = step(engine, batch, plan.view());
    check_same({found}, {step(resident, batch)});
    CHECK(found.stats.alone);
    const ResidencyStats& own = found.stats;
    const ResidencyStats expected = table->run(plan.view(), found.dispatch, layers);
    CHECK(engine.store().snapshot().state == table->state());
    CHECK(own.prefetches_begun == expected.prefetches_begun);
    CHECK(own.prefetches_wasted == expected.prefetches_wasted);
    CHECK(own.prefetched == expected.prefetched);
    CHECK(own.resident == expected.resident);
    CHECK(own.late == expected.late);
    CHECK(own.on_demand == expected.on_demand);
    CHECK(found.stats.bytes_moved ==
          (own.prefetches_begun + own.late + own.on_demand) * engine.pack().experts.slot_bytes);
    prefetches += own.prefetches_begun, hits += own.prefetched, wasted += own.prefetches_wasted;
  }
  CHECK(prefetches > 0);
  CHECK(hits > 0);
  CHECK(wasted > 0);
}

#ifdef SIDA_CUDA_EMULATED

TEST_CASE("device passes: layers wait for the prefetches of the layer before, however late these are") {
  const PackedFixture f("olmoe-tiny");
  Engine resident = hosted(f, false, 1), engine = hosted(f, true, 0.5);
  const std::vector<int32_t> id{0}, token{5};
  // More shapes than graphs are kept, so that each pass is launched.
  const std::vector<int32_t> shapes[] = {{0, 1}, {0, 2}, {0, 3}, {0, 1, 2}, {0, 1, 3}};
  Batch all = pass_of(0, id, shapes[0], token);
  all.whole_layers = true;
  step(engine, all);  // brings all experts to the host
  step(engine, all);
  engine.release_sequences(id);
  struct LateWaits {
    LateWaits() { emulation::delay_waits(std::chrono::milliseconds(20)); }
    ~LateWaits() { emulation::delay_waits({}); }
  } const late;
  std::mt19937 random(9);
  uint64_t prefetches = 0;
  for (int32_t i = 0; i < 10; ++i) {
    CASE(i);
    const std::vector<int32_t>& offsets = shapes[i % 5];
    const std::vector<int32_t> ids = first_numbers(offsets.size() - 1);
    std::vector<int32_t> tokens{4 + i % 7, 30 + i % 5, 9};
    tokens.resize(static_cast<size_t>(offsets.back()));
    const Batch batch = pass_of(0, ids, offsets, tokens);
    const RandomPlan plan(random, engine.plan().experts);
    const Step found = step(engine, batch, plan.view());
    check_same({found}, {step(resident, batch)});
    CHECK(found.stats.alone);
    prefetches += found.stats.prefetches_begun;
  }
  CHECK(prefetches > 0);
}

#endif  // SIDA_CUDA_EMULATED

TEST_CASE("device passes: the device waits for prefetches of the host that still run") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const PackedFixture f("olmoe-tiny");
  Engine resident = hosted(f, false, 1);
  Engine engine = hosted(f, true, 0.5, ActivationFormat::kF32, false, {.bandwidth = 1e9, .latency = 0.01});
  const std::vector<int32_t> id{0}, offsets{0, 1}, token{5};
  Batch batch = pass_of(0, id, offsets, token);
  batch.whole_layers = true;
  step(engine, batch);  // brings all experts to the host
  step(engine, batch);
  engine.release_sequences(id);
  batch.whole_layers = false;
  std::mt19937 random(11);
  uint64_t prefetches = 0;
  for (int i = 0; i < 8; ++i) {
    CASE(i);
    batch.route_ahead = i % 2 == 0 ? 1 : 0;
    const RandomPlan plan(random, engine.plan().experts);
    const Step found = step(engine, batch, plan.view());
    check_same({found}, {step(resident, batch)});
    CHECK(found.stats.alone == (i % 2 == 1));
    prefetches += found.stats.alone ? 0 : found.stats.prefetches_begun;
  }
  CHECK(prefetches > 0);
}

TEST_CASE("device passes: prefetches of experts that only the disk has take the host, also where a pass stops") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const PackedFixture f("olmoe-tiny");
  Engine resident = hosted(f, false, 1), engine = hosted(f, true, 0.6);
  const size_t layers = moe_layers_of(engine, 0), experts = engine.plan().experts / layers;
  const std::vector<uint16_t> all = [&] {
    const std::vector<int32_t> numbers = first_numbers(experts);
    return std::vector<uint16_t>(numbers.begin(), numbers.end());
  }();
  const std::vector<int32_t> id{0}, offsets{0, 1};
  size_t stopped = 0, alone = 0;
  bool read = true;
  std::mt19937 random(5);
  for (int32_t pass = 0; pass < 40; ++pass) {
    CASE(pass);
    std::set<ExpertId> in_host;
    for (size_t layer = 0; layer < layers; ++layer) {
      std::vector<HostedExpert> hosted;
      engine.store().hold_hosted(layer, all, hosted);
      for (const HostedExpert& each : hosted) {
        in_host.insert(each.id);
        engine.store().release_hosted(each);
      }
    }
    const ResidencySnapshot now = engine.store().snapshot();
    RandomPlan plan(random, engine.plan().experts);
    const auto on_disk = [&](ExpertId expert) { return now.state[expert] == 0 && !in_host.contains(expert); };
    const bool asks_disk = pass % 10 == 9 && std::ranges::any_of(plan.loads, on_disk);
    if (!asks_disk) std::erase_if(plan.loads, on_disk);
    const std::vector<int32_t> token{5 + pass / 3};
    const Step found = step(engine, pass_of(0, id, offsets, token), plan.view());
    check_same({found}, {step(resident, pass_of(0, id, offsets, token))});
    if (asks_disk) CHECK(!found.stats.alone);
    alone += found.stats.alone && found.stats.prefetches_begun > 0;
    stopped += !read && !asks_disk && !found.stats.alone;
    if (!found.stats.alone) read = found.stats.disk_reads > 0;
  }
  CHECK(stopped > 0);
  CHECK(alone > 0);
}

TEST_CASE("device passes: the host runs other routings and whole layers; a pass reports which experts it found") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const PackedFixture f("olmoe-tiny");
  Engine engine = hosted(f, true, 0.6);
  const std::vector<int32_t> id{0}, offsets{0, 1}, token{7};
  Batch batch = pass_of(0, id, offsets, token);
  batch.whole_layers = true;
  step(engine, batch);  // brings all experts to the host
  batch.whole_layers = false;
  step(engine, batch);
  const auto alone = [&](const Batch& of) { return step(engine, of).stats.alone; };
  CHECK(alone(batch));
  batch.route_ahead = 1;
  CHECK(!alone(batch));
  batch.route_ahead = 0;
  batch.whole_layers = true;
  CHECK(!alone(batch));
  batch.whole_layers = false;
  const Step last = step(engine, batch);
  CHECK(last.stats.alone);
  const ResidencyStats& stats = last.stats;
  const size_t layers = moe_layers_of(engine, 0), k = engine.spec().top_k();
  CHECK(stats.needed == layers * k);
  CHECK(stats.resident + stats.on_demand == stats.needed);
  const auto count = [&](Found found) {
    return static_cast<uint64_t>(std::ranges::count(last.found, static_cast<uint8_t>(found)));
  };
  CHECK(count(Found::kResident) == stats.resident);
  CHECK(count(Found::kOnDemand) == stats.on_demand);
  CHECK(last.stats.bytes_moved == stats.on_demand * engine.pack().experts.slot_bytes);
  CHECK(last.stats.stall_ns == 0);
}

}  // namespace
