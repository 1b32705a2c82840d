// Beams of an encoder-decoder model: sequences that continue one another and cross-attend to one prompt, and the
// candidates that a pass names for each.
#include <algorithm>
#include <numeric>
#include <vector>

#include "doctest/doctest.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::fixture;
using testing::pass_of;
using testing::Run;
using testing::run;
using testing::TempDir;

constexpr uint32_t kCandidates = 8;

struct TestBeam {
  int32_t id;
  std::vector<int32_t> tokens;  ///< fed so far
  std::vector<RankedToken> candidates;
};

/// Feeds one token to each of `ids` and returns their candidates, one list after the other.
Run step(Engine& engine, const std::vector<int32_t>& ids, const std::vector<int32_t>& parents,
         const std::vector<int32_t>& tokens) {
  std::vector<int32_t> offsets(ids.size() + 1), rows(ids.size());
  std::iota(offsets.begin(), offsets.end(), 0);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<Pick> picks;
  for (const int32_t row : rows) picks.push_back({row, {}, kCandidates});
  Batch batch = pass_of(1, ids, offsets, tokens, parents);
  batch.picks = picks;
  batch.logit_rows = rows;
  return run(engine, batch);
}

/// The candidates are the largest logits, in order, ties by id.
void check_candidates(const Run& out, size_t row, size_t vocab) {
  const float* logits = out.logits.data() + row * vocab;
  std::vector<int32_t> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (size_t i = 0; i < kCandidates; ++i) REQUIRE(out.top[row * kCandidates + i].id == ids[i]);
}

std::vector<RankedToken> candidates_of(const Run& out, size_t row) {
  const auto first = out.top.begin() + static_cast<long>(row * kCandidates);
  return {first, first + kCandidates};
}

TEST_CASE("beams: sequences that fork in every pass have the candidates of sequences that were fed alone") {
  const std::string directory = fixture("switch-tiny");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const auto ids = cases.read<int64_t>("c2.input_ids");
  const std::vector<int32_t> prompt(ids.begin(), ids.end()), encoder{0};
  const std::vector<int32_t> ends{0, static_cast<int32_t>(prompt.size())};
  for (const DeviceKind device : testing::devices()) {
    CAPTURE(testing::device_name(device));
    BatchLimits limits{320, 1024, 2};
    limits.device = device;
    Engine engine(testing::options_for(pack.path(), limits, 0.5));
    const size_t vocab = engine.spec().vocab;
    run(engine, pass_of(0, encoder, ends, prompt));
    const int32_t start = *engine.spec().tokens.start;
    const Run begun = step(engine, {1}, encoder, {start});
    std::vector<TestBeam> beams{{1, {start}, candidates_of(begun, 0)}};
    int32_t next_id = 2;
    // Past the end of a page, so that full and half full pages are shared.
    for (size_t length = 1; length < 20; ++length) {
      // The first beam goes on twice and the last not at all. The fork stands before or behind the beam it continues.
      const TestBeam from = beams.front();
      TestBeam fork{next_id++, from.tokens, {}}, kept = from;
      fork.tokens.push_back(from.candidates[1].id);
      kept.tokens.push_back(from.candidates[0].id);
      if (beams.size() > 1) engine.release_sequences(std::vector<int32_t>{beams.back().id});
      beams = length % 2 == 0 ? std::vector<TestBeam>{fork, kept} : std::vector<TestBeam>{kept, fork};
      const Run out = step(engine, {beams[0].id, beams[1].id}, {from.id, from.id},
                           {beams[0].tokens.back(), beams[1].tokens.back()});
      for (size_t b = 0; b < beams.size(); ++b) {
        check_candidates(out, b, vocab);
        beams[b].candidates = candidates_of(out, b);
        const int32_t alone = 1000;
        Run own;
        for (const int32_t token : beams[b].tokens) own = step(engine, {alone}, encoder, {token});
        engine.release_sequences(std::vector<int32_t>{alone});
        for (size_t i = 0; i < kCandidates; ++i) {
          REQUIRE(own.top[i].id == beams[b].candidates[i].id);
          REQUIRE(own.top[i].logprob == beams[b].candidates[i].logprob);
        }
      }
      engine.check_integrity();
    }
    engine.release_sequences(std::vector<int32_t>{beams[0].id, beams[1].id});
    engine.release_sequences(encoder);
    engine.check_integrity();
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  }
}

}  // namespace
}  // namespace sida
