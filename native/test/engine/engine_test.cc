// What holds for engines of every kind: the same bits with activations in bf16 and with experts foreseen, no
// allocation.
#include "support/allocation_count.h"
#include "support/oracle_cases.h"

namespace {

TEST_CASE("bf16 activations: the same bits in chunks, with more threads and with few experts") {
  for (const char* name : {"olmoe-tiny", "gpt-oss-tiny", "deepseek-v3-tiny"}) {
    const PackedFixture f(name, kBf16Format, kBf16Format);
    const std::vector<int32_t>& prompt = f.list[0].tokens;
    const auto logits = [&](size_t threads, double share, size_t chunk, ActivationFormat activations) {
      BatchLimits limits{64, 1024, threads};
      limits.activations = activations;
      Engine engine = f.open(limits, share);
      return logits_in_chunks(engine, prompt, chunk);
    };
    const std::vector<float> expected = logits(1, 1, prompt.size(), ActivationFormat::kBf16);
    CHECK(!same_bits(expected, logits(1, 1, prompt.size(), ActivationFormat::kF32)));
    for (const auto& [threads, share, chunk] : grid(Sizes{1, 3}, std::vector{0.3, 1.0}, Sizes{1, 5, 17})) {
      CASE(name, threads, share, chunk);
      CHECK(same_bits(logits(threads, share, chunk, ActivationFormat::kBf16), expected));
    }
  }
}

TEST_CASE("bf16c experts: the logits of bf16 experts, on every device, at every budget") {
  for (const auto& [name, device] :
       grid(std::vector<const char*>{"olmoe-tiny", "gpt-oss-tiny", "switch-tiny-untied"}, devices())) {
    if (emulated(device) && name != std::string("olmoe-tiny")) continue;
    const PackedFixture plain(name, kBf16Format, kBf16Format), coded(name, kBf16cFormat, kBf16Format);
    const std::vector<int32_t> prompt = plain.list[0].tokens;
    for (const auto activations : {ActivationFormat::kF32, ActivationFormat::kBf16}) {
      if (activations != ActivationFormat::kF32 && device != DeviceKind::kCpu) continue;
      BatchLimits limits{64, 1024, 2};
      limits.device = device;
      limits.activations = activations;
      const auto logits = [&](const PackedFixture& f, double share) {
        Engine engine = f.open(limits, share);
        if (engine.spec().stacks.size() == 1) return logits_in_chunks(engine, prompt, 5);
        return run(engine, pass_of(0, f.list[0].ids, f.list[0].offsets, f.list[0].tokens)).hidden;
      };
      const std::vector<float> expected = logits(plain, 1);
      for (const double share : {1.0, 0.3, 0.0}) {
        CASE(name, device_name(device), share, activation_format_name(activations));
        CHECK(same_bits(logits(coded, share), expected));
      }
    }
  }
}

struct Decoded {
  std::vector<float> logits;
  RunStats stats;
};

/// Runs each prompt's tokens one by one, several times over.
Decoded decode(Engine& engine, const std::vector<std::vector<int32_t>>& prompts, size_t route_ahead) {
  Decoded decoded{};
  for (const auto& [round, prompt] : grid(Sizes{0, 1, 2}, prompts)) {
    const std::vector<int32_t> sequence{1}, offsets{0, 1}, row{0};
    for (const int32_t token : prompt) {
      const std::vector<int32_t> tokens{token};
      Batch batch = pass_of(0, sequence, offsets, tokens);
      batch.logit_rows = row;
      batch.route_ahead = route_ahead;
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

TEST_CASE("route ahead: the same logits at every budget and distance, with experts prefetched for later layers") {
  for (const auto& [name, device] : grid(std::vector<const char*>{"olmoe-tiny", "deepseek-v3-tiny"}, devices())) {
    const bool cpu = device == DeviceKind::kCpu;
    if (emulated(device) && name != std::string("olmoe-tiny")) continue;
    const PackedFixture f(name);
    std::vector<std::vector<int32_t>> prompts;
    for (const Case& c : f.list) prompts.push_back(c.tokens);
    // Other devices may be emulated, and slow.
    if (!cpu) prompts = {part_of(prompts[0], 0, std::min<size_t>(prompts[0].size(), 8))};
    const BatchLimits limits = limits_on(device, {64, 1024, 2});
    Engine resident = f.open(limits);
    const Decoded expected = decode(resident, prompts, 0);
    uint64_t foreseen = 0;
    for (const auto& [share, route_ahead] :
         grid(cpu ? std::vector{0.0, 0.5} : std::vector{0.5}, cpu ? Sizes{1, 3} : Sizes{2})) {
      CASE(name, device_name(device), share, route_ahead);
      Engine engine = f.open(limits, share);
      const Decoded decoded = decode(engine, prompts, route_ahead);
      CHECK(same_bits(decoded.logits, expected.logits));
      CHECK(decoded.stats.prefetches_begun == decoded.stats.prefetches_foreseen);
      foreseen += decoded.stats.prefetched + decoded.stats.late;
    }
    CHECK(decode(resident, prompts, 1).stats.prefetches_begun == 0);
    if (cpu) CHECK(foreseen > 0);
  }
}

const std::vector<int32_t> kIds{11, 12, 13, 14, 15};

/// One token of each sequence; the most likely token after it, and the chances of two others.
void step(Engine& engine, size_t route_ahead) {
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
  batch.route_ahead = route_ahead;
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
    for (const size_t route_ahead : {0, 1}) {
      // What is kept from pass to pass has grown, and the next tokens need no further page.
      for (size_t i = 0; i < kPageTokens + 1; ++i) step(engine, route_ahead);
      const size_t before = allocations();
      for (size_t i = 0; i < kPageTokens / 2; ++i) step(engine, route_ahead);
      CHECK(allocations() == before);
      engine.release_sequences(kIds);
    }
  }
}

TEST_CASE("encoder alone: what needs a head is refused, and a sequence has no second pass") {
  const PackedFixture f("nomic-bert-tiny");
  Engine engine = f.open();
  const std::vector<int32_t> ids{1}, offsets{0, 3}, tokens{5, 6, 7}, row{2};
  const Pick pick{2, {}, 0};
  const TokenQuery query{2, 5};
  Batch picks = pass_of(0, ids, offsets, tokens), queries = picks, logits = picks;
  picks.picks = {&pick, 1};
  queries.queries = {&query, 1};
  logits.logit_rows = row;
  for (const Batch& batch : {picks, queries, logits}) {
    check_error([&] { run(engine, batch); }, {"no head", "states alone"}, "invalid_request");
  }
  run(engine, pass_of(0, ids, offsets, tokens));
  check_error([&] { run(engine, pass_of(0, ids, offsets, tokens)); }, {"sequence 1 exists already"}, "invalid_request");
}

TEST_CASE("encoder alone: the cache holds the keys of one layer, and no logits are counted") {
  const PackedFixture f("nomic-bert-tiny");
  const Engine engine = f.open();
  const ModelSpec& spec = engine.spec();
  CHECK(engine.cache().shape().layers == 1);
  CHECK(spec.stacks[0].layers.size() == 4);
  ModelSpec with_head = spec;
  with_head.head.present = true;
  const BatchLimits limits{320, 1024, 2};
  const uint64_t without = plan_memory(spec, kF32Format, kF32Format, limits).workspace;
  const uint64_t with = plan_memory(with_head, kF32Format, kF32Format, limits).workspace;
  CHECK(with - without >= kMaxLogitRows * spec.vocab * sizeof(float));
}

}  // namespace
