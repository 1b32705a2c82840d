// Experts that a GPU lacks, shared between the link and the CPU: any split gives the same answers.
#include "checkpoint/gguf_experts.h"
#include "support/allocation_count.h"
#include "support/ops_fixture.h"
#include "support/oracle_cases.h"
#include "support/routing_table.h"

namespace {

BatchLimits int8_limits(DeviceKind device, size_t tokens = 64) {
  BatchLimits limits{tokens, 1024, 2};
  limits.max_routing_k = 3;
  limits.activations = ActivationFormat::kInt8;
  limits.device = device;
  return limits;
}

/// A server whose host tier has room for all experts, with slots for `slots` of them.
EngineOptions host_options(const PackedFixture& f, size_t slots, HostExpertsOptions cpu_experts) {
  EngineOptions options = f.options(int8_limits(DeviceKind::kCuda), 0);
  const Pack pack = open_pack(options.pack);
  const MemoryPlan plan = plan_memory(pack, options.limits);
  options.budget_bytes = plan.fixed() + std::min<uint64_t>(slots, plan.experts) * plan.slot;
  options.host_bytes =
      HostExperts::bytes(pack.experts, options.limits) + plan.experts * device_bytes(pack.experts.slot_bytes);
  options.cpu_experts = std::move(cpu_experts);
  return options;
}

/// Passes of both stacks, or steps of a decoder, by routers and by a table: all hidden states and logits.
std::vector<float> answers(Engine& engine, const Case& c, uint64_t* by_cpu = nullptr) {
  std::vector<float> all;
  const auto take = [&](const Run& out) {
    all.insert(all.end(), out.hidden.begin(), out.hidden.end());
    all.insert(all.end(), out.logits.begin(), out.logits.end());
    const auto cpu = std::ranges::count(out.found, static_cast<uint8_t>(Found::kCpu));
    CHECK(out.stats.cpu == static_cast<uint64_t>(cpu));
    if (by_cpu != nullptr) *by_cpu += out.stats.cpu;
  };
  const std::vector<int32_t> prompt = part_of(c.tokens, 0, static_cast<size_t>(c.offsets[1]));
  if (engine.spec().stacks.size() == 1) {
    take(feed(engine, 1, prompt));
    for (const int32_t token : {5, 90, 17, 300}) take(feed(engine, 1, {token}));
    engine.release_sequences(std::vector<int32_t>{1});
  } else {
    for (const bool routed : {false, true}) {
      const Table table = random_table(moe_layers_of(engine, 0), c.tokens.size(), 3, engine.spec().experts(), 7);
      Batch batch = pass_of(0, c.ids, c.offsets, c.tokens);
      if (routed) batch.routing = table.view();
      take(run(engine, batch));
      if (!routed) take(feed(engine, 100, {0, 7, 19}, c.ids[0]));
      engine.release_sequences(std::vector<int32_t>{100});
      engine.release_sequences(c.ids);
    }
  }
  return all;
}

TEST_CASE("cuda host experts: answers have the resident engine's bits with any share of the CPU and any slots") {
  if (cuda_state().devices == 0) return;
  using Row = std::pair<const char*, WeightFormat>;
  for (const auto& [name, format] : std::vector<Row>{
           {"olmoe-tiny", int4_format(32)}, {"olmoe-tiny", kQ8_0Format}, {"switch-tiny-untied", kInt8Format}}) {
    if (kFollowsThreads && format != kQ8_0Format) continue;
    CASE(name, format);
    const PackedFixture f(name, format, kInt8Format);
    const Case& c = f.list[0];
    Engine resident = f.open(int8_limits(DeviceKind::kCuda));
    Engine cpu = f.open(int8_limits(DeviceKind::kCpu));
    const std::vector<float> expected = answers(resident, c), of_cpu = answers(cpu, c);
    // Attention, norms and routers have other bits, and some codes of activations are rounded the other way then.
    double difference = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(expected[i]) - of_cpu[i], 2);
      size += std::pow(static_cast<double>(of_cpu[i]), 2);
    }
    CHECK(std::sqrt(difference / size) < 0.02);
    CHECK(std::ranges::all_of(expected, [](float value) { return std::isfinite(value); }));
    std::mt19937 random(5);
    const std::vector<std::function<size_t(size_t)>> shares{
        [](size_t) { return size_t{0}; }, [](size_t missing) { return missing; },
        [&](size_t missing) { return random() % (missing + 1); }, nullptr};
    for (size_t i = 0; i < shares.size(); ++i) {
      for (const size_t slots : {1, 3, 9}) {
        if (kFollowsThreads && slots != 3) continue;
        CASE(i, slots);
        Engine engine(host_options(f, slots, {true, shares[i]}));
        CHECK(engine.host_experts_bytes() > 0);
        uint64_t by_cpu = 0;
        // The first pass brings experts from the disk to the host tier.
        for (int pass = 0; pass < 3; ++pass) CHECK(same_bits(answers(engine, c, &by_cpu), expected));
        if (i == 0) CHECK(by_cpu == 0);
        if (i == 1) CHECK(by_cpu > 0);
        CHECK(engine.memory().used() <= engine.memory().budget());
      }
    }
  }
}

TEST_CASE("cuda host experts: none where they are off, weights are not quantized, or the host's budget is too small") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const PackedFixture quantized("olmoe-tiny", kInt8Format), floats("olmoe-tiny", kBf16Format);
  const auto used = [](EngineOptions options) {
    Engine engine(options);
    CHECK(engine.host().budget() + engine.host_experts_bytes() <= options.host_bytes);
    return engine.host_experts_bytes();
  };
  CHECK(used(host_options(quantized, 2, {})) > 0);
  const EngineOptions options = host_options(quantized, 2, {});
  CHECK(plan_memory(open_pack(options.pack), options.limits).host_workspace == used(options));
  CHECK(used(host_options(quantized, 2, {.on = false})) == 0);
  CHECK(used(host_options(floats, 2, {})) == 0);
  EngineOptions small = host_options(quantized, 2, {});
  small.host_bytes = HostExperts::bytes(open_pack(small.pack).experts, small.limits);
  CHECK(used(small) == 0);
  CHECK(HostExperts::bytes(open_pack(small.pack).experts, int8_limits(DeviceKind::kCpu)) == 0);
}

TEST_CASE("host experts: outputs are those of the device's ops, and a layer allocates nothing") {
  constexpr size_t kTokens = 7, kTopK = 2;
  const PackedFixture f("olmoe-tiny", int4_format(32));
  const Pack pack = open_pack(f.pack.path());
  const ExpertLayout& layout = pack.experts;
  const auto backend = make_cpu_backend();
  DeviceMemory memory(*backend, layout.slot_bytes);
  const std::unique_ptr<ExpertFile> disk = open_experts(pack);
  HostTier host(layout.slot_bytes, layout.experts() * layout.slot_bytes);
  ExpertStore store(layout, memory, *disk, host, {}, {1, 0}, 1);
  BatchLimits limits = int8_limits(DeviceKind::kCuda, kTokens);
  HostExperts shared(store, limits, make_cpu_backend(), HostExperts::bytes(layout, limits),
                     {true, [](size_t missing) { return missing; }});
  // Here the CPU is the device, too.
  limits.device = DeviceKind::kCpu;
  OpsFixture fixture(DeviceKind::kCpu, pack.spec, limits);
  Ops& ops = fixture.ops();
  const size_t experts = layout.shape.experts_of(0), width = layout.shape.width;
  std::vector<uint16_t> all(experts);
  std::iota(all.begin(), all.end(), 0);
  CHECK(!shared.may_ask(0, kTokens));
  Dispatch dispatch;
  dispatch.k = kTopK;
  for (size_t choice = 0; choice < kTokens * kTopK; ++choice) {
    dispatch.expert.push_back(static_cast<uint16_t>(choice * 5 / 3 % experts));
    dispatch.alpha.push_back(1);
  }
  const SequenceSpan span{.begin = 0, .count = kTokens};
  sort_choices(experts, kTokens * kTopK, {&span, 1}, dispatch);
  const auto normed = random_floats(kTokens * width, 1);
  std::ranges::copy(normed, ops.activations().normed);
  std::vector<uint8_t> found(experts);
  {
    // Computes all as the device does, and leaves them in the host tier.
    LayerVisit visit(store, 0, all, found.data());
    while (const auto expert = visit.next()) {
      const ExpertBlock block{expert->index, expert->block};
      ops.experts(layout, 0, {&block, 1}, dispatch);
    }
  }
  const std::vector<float> expected(ops.expert_outputs(), ops.expert_outputs() + kTokens * kTopK * width);
  CHECK(shared.may_ask(0, kTokens));
  CHECK(!shared.may_ask(0, kTokens + 1));
  size_t before = 0, computed = 0;
  for (int pass = 0; pass < 3; ++pass) {
    if (pass == 2) before = allocations();
    ops.queue_states(kTokens, shared.rows());
    const auto asked = shared.ask(0, dispatch);
    for (const uint16_t index : dispatch.needed) {
      if (asked[index] == 0) continue;
      ++computed;
      std::fill_n(ops.expert_outputs() + dispatch.begin[index] * width,
                  (dispatch.begin[index + 1] - dispatch.begin[index]) * width, NAN);
    }
    shared.compute(0, dispatch, ops);
  }
  CHECK(allocations() == before);
  // The last one is in the only slot.
  CHECK(computed == 3 * (dispatch.needed.size() - (dispatch.needed.back() == experts - 1)));
  CHECK(same_bits({ops.expert_outputs(), ops.expert_outputs() + expected.size()}, expected));
}

}  // namespace
