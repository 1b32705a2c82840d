// The budget of a GPU against what its driver hands out, with the context and whole pages. The emulated driver
// tells it.
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
    CHECK(engine.plan().driver == gpu_driver_bytes(context, engine.plan().block * engine.plan().experts));
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

}  // namespace
#endif
