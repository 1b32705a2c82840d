// Beams of an encoder-decoder model: sequences that continue one another and cross-attend to one prompt, and the
// candidates that a pass names for each.
#include "support/oracle_cases.h"

namespace {

constexpr uint32_t kCandidates = 8;

struct TestBeam {
  int32_t id;
  std::vector<int32_t> tokens;  ///< fed so far
  std::vector<RankedToken> candidates;
};

/// Feeds one token to each of `ids` and returns their candidates, one list after the other.
Run step(Engine& engine, const std::vector<int32_t>& ids, const std::vector<int32_t>& parents,
         const std::vector<int32_t>& tokens) {
  const std::vector<int32_t> offsets = first_numbers(ids.size() + 1), rows = first_numbers(ids.size());
  std::vector<Pick> picks;
  for (const int32_t row : rows) picks.push_back({row, {}, kCandidates});
  Batch batch = pass_of(1, ids, offsets, tokens, parents);
  batch.picks = picks;
  batch.logit_rows = rows;
  return run(engine, batch);
}

/// The candidates of a row: the largest logits, in order, ties by id.
std::vector<RankedToken> candidates_of(const Run& out, size_t row, size_t vocab) {
  const float* logits = out.logits.data() + row * vocab;
  std::vector<int32_t> ids = first_numbers(vocab);
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (size_t i = 0; i < kCandidates; ++i) REQUIRE(out.top[row * kCandidates + i].id == ids[i]);
  return part_of(out.top, row * kCandidates, kCandidates);
}

TEST_CASE("beams: sequences that fork in every pass have the candidates of sequences that were fed alone") {
  const PackedFixture f("switch-tiny");
  const std::vector<int32_t> prompt = f.list[2].tokens, encoder{0}, ends{0, static_cast<int32_t>(prompt.size())};
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    Engine engine = f.open(limits_on(device), 0.5);
    const size_t vocab = engine.spec().vocab;
    run(engine, pass_of(0, encoder, ends, prompt));
    const int32_t start = *engine.spec().tokens.start;
    std::vector<TestBeam> beams{{1, {start}, candidates_of(step(engine, {1}, encoder, {start}), 0, vocab)}};
    int32_t next_id = 2;
    // Past the end of a page, so that full and half full pages are shared.
    for (size_t length = 1; length < 20; ++length) {
      // The first beam goes on twice and the last not at all. The fork stands before or behind the beam it continues.
      const TestBeam from = beams.front();
      TestBeam fork{next_id++, from.tokens, {}}, kept = from;
      fork.tokens.push_back(from.candidates[1].id);
      kept.tokens.push_back(from.candidates[0].id);
      if (beams.size() > 1) release(engine, {beams.back().id});
      beams = length % 2 == 0 ? std::vector<TestBeam>{fork, kept} : std::vector<TestBeam>{kept, fork};
      const Run out = step(engine, {beams[0].id, beams[1].id}, {from.id, from.id},
                           {beams[0].tokens.back(), beams[1].tokens.back()});
      for (size_t b = 0; b < beams.size(); ++b) {
        beams[b].candidates = candidates_of(out, b, vocab);
        Run own;
        for (const int32_t token : beams[b].tokens) own = step(engine, {1000}, encoder, {token});
        release(engine, {1000});
        for (size_t i = 0; i < kCandidates; ++i) {
          REQUIRE(own.top[i].id == beams[b].candidates[i].id);
          REQUIRE(own.top[i].logprob == beams[b].candidates[i].logprob);
        }
      }
    }
    release(engine, {beams[0].id, beams[1].id, 0});
    engine.check_integrity();
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  }
}

}  // namespace
