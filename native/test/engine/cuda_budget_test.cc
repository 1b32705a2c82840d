// The budget of a GPU against what its driver hands out, with the context and whole pages. The emulated driver tells
// it.
#ifdef SIDA_CUDA_EMULATED
#include "support/oracle_cases.h"

namespace {

constexpr BatchLimits kBudgetLimits{320, 1024, 1, 3, true, ActivationFormat::kF32, DeviceKind::kCuda};

TEST_CASE("cuda budget: a GPU with as much memory as the budget suffices; what the driver takes is named") {
  if (cuda_state().devices == 0 || kFollowsThreads) return;
  const uint64_t context = cuda_state().context_bytes;
  CHECK(cuda_state().context_measured);
  CHECK(context == size_t{64} << 20);
  for (const auto& [name, share] :
       grid(std::vector<const char*>{"switch-tiny-untied", "olmoe-tiny"}, shares_on(DeviceKind::kCuda))) {
    CASE(name, share);
    const PackedFixture f(name);
    EngineOptions options = f.options(kBudgetLimits, share);
    options.host_bytes = uint64_t{1} << 20;
    const TotalMemory total(options.budget_bytes);
    CHECK(cuda_state().free_bytes == options.budget_bytes);
    Engine engine(options);
    size_t layers = 0;
    for (const StackSpec& stack : engine.spec().stacks) layers = std::max(layers, stack.layers.size());
    CHECK(engine.plan().driver == driver_bytes(DeviceKind::kCuda, engine.plan().block * engine.plan().experts, layers));
    CHECK(engine.memory().used() <= options.budget_bytes);
    CHECK(engine.memory().used() >= emulation::used_memory());
    const Case& c = f.list[0];
    run(engine, pass_of(0, c.ids, c.offsets, c.tokens));
    engine.release_sequences(c.ids);
    // Slots of a few KiB lie in pages that others keep, unless they are moved together.
    engine.set_budget(engine.plan().smallest());
    CHECK(emulation::used_memory() <= engine.plan().smallest());
    run(engine, pass_of(0, c.ids, c.offsets, c.tokens));
    EngineOptions small = options;
    small.budget_bytes = engine.plan().smallest() - 1;
    check_error([&] { Engine{small}; }, {"the GPU's driver " + std::to_string(engine.plan().driver)},
                "budget_too_small");
  }
}

TEST_CASE("cuda budget: a smaller budget returns pages to the driver, also where several slots share one") {
  if (cuda_state().devices == 0) return;
  const TempDir pack;
  write_pack(repo() + "/models/switch-mini", pack.path());
  Engine engine(options_for(pack.path(), kBudgetLimits, 1));
  const size_t experts = engine.plan().experts;
  REQUIRE(engine.plan().slot * 8 == kGpuPage);
  std::vector<ExpertId> ids(experts);
  std::iota(ids.begin(), ids.end(), 0U);
  engine.store().pin(ids, true);
  engine.store().pin(ids, false);
  // The experts of the smallest keys stay, and lie in all pages.
  std::vector<double> keys(experts);
  for (size_t id = 0; id < experts; ++id) keys[id] = static_cast<double>(id % 8 * experts + id / 8);
  engine.store().start_pass(ResidencyPlan{keys, keys});
  const uint64_t budget = engine.plan().fixed() + 32 * engine.plan().slot;
  engine.set_budget(budget);
  CHECK(emulation::used_memory() <= budget);
  engine.check_integrity();
}

}  // namespace
#endif
