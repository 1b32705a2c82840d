// The memory that a pass on the CPU takes for its activations.
#include "ops/cpu/cpu_workspace.h"

#include "support/ops_fixture.h"
#include "support/test.h"
#include "support/weight_formats.h"

namespace {

TEST_CASE("cpu workspace: has room for the widest rows, rounded for weights of any format") {
  const auto backend = make_backend(DeviceKind::kCpu);
  DeviceMemory memory(*backend, uint64_t{1} << 30);
  const ModelSpec spec = decoder_spec(256, 4, 4, 64);
  for (const auto& [activations, tokens] :
       grid(std::vector<ActivationFormat>{ActivationFormat::kF32, ActivationFormat::kBf16, ActivationFormat::kInt8},
            Sizes{1, 37, 300})) {
    BatchLimits limits;
    limits.max_batch_tokens = tokens;
    limits.kv_tokens = tokens;
    limits.activations = activations;
    const CpuWorkspace workspace(memory, spec, limits);
    for (const WeightFormat format : all_formats()) {
      if (!takes_rounded(format, workspace.rounded)) continue;
      CASE(format, tokens);
      // The feed-forward network is the widest: twice the model's width.
      CHECK(workspace.rounded.memory.size() >= rounded_bytes(std::min(tokens, kRoundedRows), 512, format));
    }
  }
}

TEST_CASE("rounded rows: memory that is too small is refused") {
  std::vector<std::byte> memory(rounded_bytes(4, 256, kQ6_KFormat));
  CHECK_NOTHROW(rounded_rows(memory, 4, 256, kQ6_KFormat));
  memory.pop_back();
  CHECK_THROWS_AS(rounded_rows(memory, 4, 256, kQ6_KFormat), Error);
}

}  // namespace
