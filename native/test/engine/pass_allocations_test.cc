// A step of generations whose experts are resident takes no memory from the heap.
#include "support/allocation_count.h"
#include "support/oracle_cases.h"

namespace {

const std::vector<int32_t> kIds{11, 12, 13, 14, 15};

/// One token of each sequence; the most likely token after it, and the chances of two others.
void step(Engine& engine, size_t look_ahead) {
  static const std::vector<int32_t> offsets{0, 1, 2, 3, 4, 5}, tokens{3, 4, 5, 6, 7};
  static const std::vector<Pick> picks{{0, {}}, {1, {}}, {2, {}}, {3, {}}, {4, {}}};
  static const std::vector<TokenQuery> queries{{0, 5}, {0, 6}, {3, 7}};
  static std::vector<PickedToken> picked(kIds.size());
  static std::vector<double> logprobs(3);
  static std::vector<uint8_t> found(1024);
  static std::vector<uint16_t> dispatch(1024);
  Batch batch = pass_of(0, kIds, offsets, tokens);
  batch.picks = picks;
  batch.queries = queries;
  batch.look_ahead = look_ahead;
  BatchOutput output;
  output.picked = picked;
  output.query_logprobs = logprobs;
  output.found = found.data();
  output.dispatch = dispatch.data();
  engine.run(batch, {}, output);
}

TEST_CASE("a step whose experts are resident allocates nothing") {
  for (const auto& [name, activations] :
       grid(std::vector<const char*>{"olmoe-tiny", "gpt-oss-tiny", "deepseek-v3-tiny"},
            std::vector{ActivationFormat::kF32, ActivationFormat::kBf16, ActivationFormat::kInt8})) {
    CASE(name, activation_format_name(activations));
    const WeightFormat weights = activations == ActivationFormat::kInt8 ? kInt8Format : kBf16Format;
    BatchLimits limits{64, 1024, 2};
    limits.activations = activations;
    limits.kv_windows = kIds.size();
    const PackedFixture f(name, weights, weights);
    Engine engine = f.open(limits);
    std::vector<ExpertId> all(engine.store().layout().experts());
    std::iota(all.begin(), all.end(), 0);
    engine.store().pin(all, true);
    for (const size_t look_ahead : {0, 1}) {
      // What is kept from pass to pass has grown, and the next tokens need no further page.
      for (size_t i = 0; i < kPageTokens + 1; ++i) step(engine, look_ahead);
      const size_t before = allocations();
      for (size_t i = 0; i < kPageTokens / 2; ++i) step(engine, look_ahead);
      CHECK(allocations() == before);
      engine.release_sequences(kIds);
    }
  }
}

}  // namespace
