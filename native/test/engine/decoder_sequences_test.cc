// Sequences of a decoder-only model side by side: prompts in chunks beside single tokens, shared pages, refused passes.
#include <algorithm>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/decoder_prompts.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_prompts;
using testing::fixture;
using testing::pass_of;
using testing::Prompt;
using testing::Run;
using testing::run;
using testing::TempDir;

/// One generation of a mix: chunks of its prompt, then its own picks, one a pass.
struct Generation {
  int32_t id;
  const std::vector<int32_t>* prompt;
  size_t chunk;
  size_t given = 0;  ///< prompt tokens
  std::vector<int32_t> picked;

  std::vector<int32_t> next() const {
    if (given == prompt->size()) return {picked.back()};
    const size_t count = std::min(chunk, prompt->size() - given);
    return {prompt->begin() + static_cast<long>(given), prompt->begin() + static_cast<long>(given + count)};
  }
};

TEST_CASE("decoder-only: a mix of prompt chunks and single tokens gives each sequence the tokens it has alone") {
  const std::string directory = fixture("olmoe-tiny");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const std::vector<Prompt> prompts = decoder_prompts(cases, directory);
  for (const double share : {1.0, 0.0}) {
    Engine engine(testing::options_for(pack.path(), {64, 1024, 2}, share));
    std::vector<Generation> running;
    for (int32_t i = 0; i < 8; ++i) {
      running.push_back(
          {i, &prompts[static_cast<size_t>(i) % prompts.size()].tokens, 3 + static_cast<size_t>(i) * 5, 0, {}});
    }
    for (size_t pass = 0; pass < 80; ++pass) {
      std::vector<int32_t> ids, offsets{0}, tokens;
      std::vector<Pick> picks;
      std::vector<Generation*> picking;
      for (Generation& each : running) {
        if (each.picked.size() == 24 || pass < static_cast<size_t>(each.id)) continue;
        const std::vector<int32_t> next = each.next();
        if (tokens.size() + next.size() > 64) continue;
        ids.push_back(each.id);
        tokens.insert(tokens.end(), next.begin(), next.end());
        offsets.push_back(static_cast<int32_t>(tokens.size()));
        if (each.given < each.prompt->size()) each.given += next.size();
        if (each.given < each.prompt->size()) continue;
        picks.push_back({static_cast<int32_t>(tokens.size()) - 1, {}, 0});
        picking.push_back(&each);
      }
      if (ids.empty()) continue;
      Batch batch = pass_of(0, ids, offsets, tokens);
      batch.picks = picks;
      const Run out = run(engine, batch);
      for (size_t i = 0; i < picking.size(); ++i) picking[i]->picked.push_back(out.picked[i].id);
    }
    for (const Generation& each : running) {
      CAPTURE(each.id);
      CHECK(each.picked == prompts[static_cast<size_t>(each.id) % prompts.size()].greedy);
    }
  }
}

TEST_CASE("decoder-only: sequences that continue one prompt share its pages until they write, and outlive it") {
  const std::string directory = fixture("olmoe-tiny");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const auto ids = cases.read<int64_t>("c2.input_ids");  // 40 tokens: two pages and a half
  const std::vector<int32_t> prompt(ids.begin(), ids.end());
  for (const DeviceKind device : testing::devices()) {
    CAPTURE(testing::device_name(device));
    BatchLimits limits{320, 1024, 2};
    limits.device = device;
    Engine engine(testing::options_for(pack.path(), limits, 0.5));
    const std::vector<int32_t> parent{1}, offsets{0, 40};
    run(engine, pass_of(0, parent, offsets, prompt));
    const size_t free = engine.cache().free_pages();
    // Two labels of three tokens each, in one pass.
    const std::vector<int32_t> children{2, 3}, parents{1, 1}, starts{0, 3, 6}, labels{5, 6, 7, 9, 8, 7};
    const std::vector<TokenQuery> queries{{0, 6}, {1, 7}, {3, 8}, {4, 7}};
    Batch batch = pass_of(0, children, starts, labels, parents);
    batch.queries = queries;
    const Run forked = run(engine, batch);
    CHECK(engine.cache().free_pages() == free - 2);  // each copied the page that was half full
    engine.release_sequences(parent);
    engine.check_integrity();
    engine.release_sequences(children);
    CHECK(engine.cache().free_pages() == engine.cache().pages());
    for (size_t child = 0; child < 2; ++child) {
      std::vector<int32_t> whole = prompt;
      whole.insert(whole.end(), labels.begin() + static_cast<long>(child * 3),
                   labels.begin() + static_cast<long>(child * 3 + 3));
      const std::vector<int32_t> all{0, 43};
      const std::vector<TokenQuery> asked{{40, queries[child * 2].token}, {41, queries[child * 2 + 1].token}};
      Batch alone = pass_of(0, parent, all, whole);
      alone.queries = asked;
      const Run out = run(engine, alone);
      engine.release_sequences(parent);
      CHECK(out.query_logprobs[0] == forked.query_logprobs[child * 2]);
      CHECK(out.query_logprobs[1] == forked.query_logprobs[child * 2 + 1]);
    }
  }
}

/// Log-probability of `token` after tokens [begin, begin + count) of `prompt`, which sequence `id` is fed.
double fed(Engine& engine, int32_t id, const std::vector<int32_t>& prompt, size_t begin, size_t count, int32_t token) {
  const std::vector<int32_t> ids{id}, offsets{0, static_cast<int32_t>(count)};
  const std::vector<int32_t> tokens(prompt.begin() + static_cast<long>(begin),
                                    prompt.begin() + static_cast<long>(begin + count));
  const std::vector<TokenQuery> queries{{static_cast<int32_t>(count) - 1, token}};
  Batch batch = pass_of(0, ids, offsets, tokens);
  batch.queries = queries;
  return run(engine, batch).query_logprobs[0];
}

TEST_CASE("decoder-only: a fork of a sequence's first pages continues it with the same bits, and pages are shared") {
  const std::string directory = fixture("olmoe-tiny");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const auto ids = cases.read<int64_t>("c2.input_ids");  // 40 tokens: two pages and a half
  const std::vector<int32_t> prompt(ids.begin(), ids.end());
  for (const DeviceKind device : testing::devices()) {
    for (const KvFormat kv : {KvFormat::kF32, KvFormat::kBf16}) {
      CAPTURE(testing::device_name(device));
      BatchLimits limits{320, 1024, 2};
      limits.device = device;
      limits.kv = kv;
      Engine engine(testing::options_for(pack.path(), limits, 0.5));
      const double whole = fed(engine, 1, prompt, 0, 40, 7);
      const size_t free = engine.cache().free_pages();
      engine.fork_sequence(1, 2, 32);
      CHECK(engine.cache().free_pages() == free);
      CHECK(fed(engine, 2, prompt, 32, 8, 7) == whole);
      CHECK(engine.cache().free_pages() == free - 1);
      // A sequence that ran the same tokens itself gives up its own copy of them.
      fed(engine, 3, prompt, 0, 39, 7);
      CHECK(engine.cache().free_pages() == free - 4);
      engine.share_pages(3, 1, 32);
      engine.share_pages(3, 1, 32);
      CHECK(engine.cache().free_pages() == free - 2);
      engine.check_integrity();
      engine.release_sequences(std::vector<int32_t>{1, 2});
      CHECK(fed(engine, 3, prompt, 39, 1, 7) == whole);
      CHECK_THROWS_WITH(engine.fork_sequence(3, 4, 41), "sequence 3 has 40 tokens, not 41");
      CHECK_THROWS_WITH(engine.fork_sequence(9, 4, 16), "there is no sequence 9");
      CHECK_THROWS_WITH(engine.fork_sequence(3, 3, 16), "sequence 3 exists already");
      CHECK_THROWS_WITH(engine.share_pages(3, 3, 40), "40 tokens are not whole pages of 16 tokens");
      engine.check_integrity();
      engine.release_sequences(std::vector<int32_t>{3});
      CHECK(engine.cache().free_pages() == engine.cache().pages());
    }
  }
}

TEST_CASE("sequences: a pass that does not fit is refused and changes nothing") {
  const std::string directory = fixture("olmoe-tiny");
  TempDir pack;
  testing::write_pack(directory, pack.path());
  Engine engine(testing::options_for(pack.path(), {64, 64, 1}, 0.0));
  const std::vector<int32_t> one{1}, two{2}, offsets{0, 40}, tokens(40, 5), missing{9}, self{2};
  CHECK_THROWS_WITH(engine.check(pass_of(0, two, offsets, tokens, missing)),
                    "batch: there is no sequence 9, the parent of sequence 2");
  CHECK_THROWS_WITH(engine.check(pass_of(1, one, offsets, tokens)), "batch: stack 1 of 1");
  run(engine, pass_of(0, one, offsets, tokens));
  CHECK(engine.cache().free_pages() == 1);
  CHECK_THROWS_WITH(run(engine, pass_of(0, two, offsets, tokens)),
                    "the KV cache of 4 pages has 1 free, 3 are needed");
  CHECK(engine.cache().free_pages() == 1);
  engine.check_integrity();
  // A fork that cannot grow gives back what it shared.
  CHECK_THROWS(run(engine, pass_of(0, two, offsets, tokens, one)));
  engine.check_integrity();
  CHECK(engine.cache().free_pages() == 1);
  engine.release_sequences(one);
  CHECK(engine.cache().free_pages() == 4);
}

}  // namespace
}  // namespace sida
