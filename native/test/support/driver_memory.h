#pragma once

#include <map>

#include "engine/engine.h"
#include "support/test.h"
#ifdef SIDA_CUDA_EMULATED
#include "emulation_control.h"
#endif

namespace sida::testing {

#ifdef SIDA_CUDA_EMULATED
/// The emulated GPU has this much memory while it lives.
struct TotalMemory {
  explicit TotalMemory(size_t bytes) { emulation::set_total_memory(bytes); }
  ~TotalMemory() { emulation::set_total_memory(size_t{4} << 30); }
};

/// The driver of the emulated GPU has handed out no more than the budgets of this test's engines, its context included.
inline void check_driver_memory(const Engine& engine) {
  if (engine.plan().driver == 0) return;
  static const doctest::TestCaseData* test = nullptr;
  static std::map<const Engine*, uint64_t> budgets;  // an engine at the place of an earlier one replaces it
  const bool begins = std::exchange(test, doctest::getContextOptions()->currentTest) != test;
  if (begins) budgets.clear();
  uint64_t& budget = budgets[&engine];
  const uint64_t larger = std::max(budget, engine.memory().budget());
  budget = engine.memory().budget();
  uint64_t all = 0;
  for (const auto& [_, bytes] : budgets) all += bytes;
  all -= (budgets.size() - 1) * cuda_state().context_bytes;
  const size_t peak = emulation::peak_memory();
  CHECK(emulation::used_memory() <= all);
  if (!begins) CHECK(peak <= all - budget + larger);
}
#else
inline void check_driver_memory(const Engine&) {}
#endif

}  // namespace sida::testing
