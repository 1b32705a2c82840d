// Sequences side by side: prompts in chunks beside single tokens, shared pages, refused passes, padding that takes no
// position, recurrent states.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "support/oracle_cases.h"

namespace {

/// One generation of a mix: chunks of its prompt, then its own picks, one a pass.
struct Generation {
  int32_t id;
  const Case* source;
  size_t chunk;
  size_t given = 0;  ///< prompt tokens
  std::vector<int32_t> picked;

  bool has_prompt() const { return given < source->tokens.size(); }
  std::vector<int32_t> next() const {
    if (!has_prompt()) return {picked.back()};
    return part_of(source->tokens, given, std::min(chunk, source->tokens.size() - given));
  }
};

TEST_CASE("decoder-only: a mix of prompt chunks and single tokens gives each sequence the tokens it has alone") {
  const PackedFixture f("olmoe-tiny");
  for (const double share : {1.0, 0.0}) {
    Engine engine = f.open({64, 1024, 2}, share);
    std::vector<Generation> running;
    for (int32_t i = 0; i < 8; ++i) {
      const auto number = static_cast<size_t>(i);
      running.push_back({i, &f.list[number % f.list.size()], 3 + number * 5, 0, {}});
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
        if (each.has_prompt()) each.given += next.size();
        if (each.has_prompt()) continue;
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
      CASE(each.id);
      CHECK(each.picked == each.source->greedy[0]);
    }
  }
}

TEST_CASE("decoder-only: sequences that continue one prompt share its pages until they write, and outlive it") {
  const PackedFixture f("olmoe-tiny");
  const std::vector<int32_t> prompt = f.list[2].tokens;
  REQUIRE(prompt.size() == 40);  // two pages and a half
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    Engine engine = f.open(limits_on(device), 0.5);
    feed(engine, 1, prompt);
    const size_t free = engine.cache().free_pages();
    // Two labels of three tokens each, in one pass.
    const std::vector<int32_t> children{2, 3}, parents{1, 1}, starts{0, 3, 6}, labels{5, 6, 7, 9, 8, 7};
    const std::vector<TokenQuery> queries{{0, 6}, {1, 7}, {3, 8}, {4, 7}};
    Batch batch = pass_of(0, children, starts, labels, parents);
    batch.queries = queries;
    const Run forked = run(engine, batch);
    CHECK(engine.cache().free_pages() == free - 2);  // each copied the page that was half full
    release(engine, {1});
    engine.check_integrity();
    release(engine, children);
    CHECK(engine.cache().free_pages() == engine.cache().pages());
    for (size_t child = 0; child < 2; ++child) {
      std::vector<int32_t> whole = prompt;
      whole.insert(whole.end(), labels.begin() + static_cast<long>(child * 3),
                   labels.begin() + static_cast<long>(child * 3 + 3));
      const Run out =
          feed(engine, 1, whole, kNoParent, {{40, queries[child * 2].token}, {41, queries[child * 2 + 1].token}});
      release(engine, {1});
      CHECK(out.query_logprobs == part_of(forked.query_logprobs, child * 2, 2));
    }
  }
}

TEST_CASE("decoder-only: a fork of a sequence's first pages continues it with the same bits, and pages are shared") {
  const PackedFixture f("olmoe-tiny");
  const std::vector<int32_t> prompt = f.list[2].tokens;
  for (const auto& [device, kv] : grid(devices(), std::vector{KvFormat::kF32, KvFormat::kBf16})) {
    CASE(device_name(device), kv);
    BatchLimits limits = limits_on(device);
    limits.kv = kv;
    Engine engine = f.open(limits, 0.5);
    /// Log-probability of 7 after tokens [begin, begin + count) of the prompt, which sequence `id` is fed.
    const auto fed = [&](int32_t id, size_t begin, size_t count) {
      return feed(engine, id, part_of(prompt, begin, count), kNoParent, {{static_cast<int32_t>(count) - 1, 7}})
          .query_logprobs[0];
    };
    const double whole = fed(1, 0, 40);
    const size_t free = engine.cache().free_pages();
    engine.fork_sequence(1, 2, 32);
    CHECK(engine.cache().free_pages() == free);
    CHECK(fed(2, 32, 8) == whole);
    CHECK(engine.cache().free_pages() == free - 1);
    // A sequence that ran the same tokens itself gives up its own copy of them.
    fed(3, 0, 39);
    CHECK(engine.cache().free_pages() == free - 4);
    engine.share_pages(3, 1, 32);
    engine.share_pages(3, 1, 32);
    CHECK(engine.cache().free_pages() == free - 2);
    engine.check_integrity();
    release(engine, {1, 2});
    CHECK(fed(3, 39, 1) == whole);
    CHECK_THROWS_WITH(engine.fork_sequence(3, 4, 41), "sequence 3 has 40 tokens, not 41");
    CHECK_THROWS_WITH(engine.fork_sequence(9, 4, 16), "there is no sequence 9");
    CHECK_THROWS_WITH(engine.fork_sequence(3, 3, 16), "sequence 3 exists already");
    CHECK_THROWS_WITH(engine.share_pages(3, 3, 40), "40 tokens are not whole pages of 16 tokens");
    engine.check_integrity();
    release(engine, {3});
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  }
}

TEST_CASE("sequences: a pass that does not fit is refused and changes nothing") {
  const PackedFixture f("olmoe-tiny");
  Engine engine = f.open({64, 64, 1}, 0);
  const std::vector<int32_t> one{1}, two{2}, offsets{0, 40}, tokens(40, 5), missing{9};
  CHECK_THROWS_WITH(engine.check(pass_of(0, two, offsets, tokens, missing)),
                    "batch: there is no sequence 9, the parent of sequence 2");
  CHECK_THROWS_WITH(engine.check(pass_of(1, one, offsets, tokens)), "batch: stack 1 of 1");
  feed(engine, 1, tokens);
  CHECK(engine.cache().free_pages() == 1);
  CHECK_THROWS_WITH(feed(engine, 2, tokens), "the KV cache of 4 pages has 1 free, 3 are needed");
  CHECK(engine.cache().free_pages() == 1);
  engine.check_integrity();
  // A fork that cannot grow gives back what it shared.
  CHECK_THROWS(feed(engine, 2, tokens, 1));
  engine.check_integrity();
  CHECK(engine.cache().free_pages() == 1);
  release(engine, one);
  CHECK(engine.cache().free_pages() == 4);
}

TEST_CASE("NLLB-MoE: padding inside of a decoder's tokens takes no position, in chunks of any size and in a child") {
  const PackedFixture f("nllb-moe-tiny");
  const std::vector<int32_t> encoder{20, 1, 30, 40, 2}, decoder{2, 300, 1, 1, 50, 60, 1, 70}, parent{0}, all{0, 5};
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    Engine engine = f.open(limits_on(device));
    run(engine, pass_of(0, parent, all, encoder));
    const std::vector<float> whole = logits_in_chunks(engine, decoder, decoder.size(), 0);
    for (const size_t chunk : {1, 3}) CHECK(same_bits(logits_in_chunks(engine, decoder, chunk, 0), whole));
    // A sequence that continues another one goes on with its count.
    feed(engine, 1, part_of(decoder, 0, 4), 0);
    const Run rest = feed(engine, 2, part_of(decoder, 4, 4), 1);
    CHECK(same_bits(rest.logits, part_of(whole, 4 * engine.spec().vocab, 4 * engine.spec().vocab)));
  }
}

constexpr const char* kRecurrent[] = {"qwen3-next-tiny", "qwen3-5-moe-tiny"};

TEST_CASE("recurrent: forks begin with the state of their parent, and neither changes the other's") {
  for (const auto& [name, device] : grid(kRecurrent, devices())) {
    CASE(name, device_name(device));
    const PackedFixture f(name);
    const std::vector<int32_t> prompt = f.list[2].tokens, left = part_of(prompt, 0, 23);
    const std::vector<int32_t> one = part_of(prompt, 23, 9), two = part_of(prompt, 30, 7);
    const auto joined = [&](const std::vector<int32_t>& end) {
      std::vector<int32_t> all = left;
      all.insert(all.end(), end.begin(), end.end());
      return all;
    };
    for (const double share : {1.0, 0.0}) {
      Engine engine = f.open(limits_on(device), share);
      const auto alone = [&](const std::vector<int32_t>& end) {
        const Run out = feed(engine, 9, joined(end));
        release(engine, {9});
        return part_of(out.logits, left.size() * engine.spec().vocab, end.size() * engine.spec().vocab);
      };
      const std::vector<float> first = alone(one), second = alone(two);
      feed(engine, 1, left);
      engine.fork_sequence(1, 2, left.size());
      // Children of one parent in one pass, and then the parent itself.
      const std::vector<int32_t> ids{2, 3}, parents{kNoParent, 1}, offsets{0, 9, 16}, rows = first_numbers(16);
      std::vector<int32_t> tokens = one;
      tokens.insert(tokens.end(), two.begin(), two.end());
      Batch batch = pass_of(0, ids, offsets, tokens, parents);
      batch.logit_rows = rows;
      std::vector<float> both = first;
      both.insert(both.end(), second.begin(), second.end());
      CHECK(same_bits(run(engine, batch).logits, both));
      CHECK(same_bits(feed(engine, 1, one).logits, first));
      release(engine, {1, 2, 3});
      CHECK(engine.cache().pages_in_use(engine.cache().group_of(0)) == 0);
    }
  }
}

TEST_CASE("recurrent: sequences beyond the states are refused and change nothing; a state is behind all tokens") {
  const PackedFixture f("qwen3-next-tiny");
  BatchLimits limits = limits_on(DeviceKind::kCpu);
  limits.kv_states = 2;
  Engine engine = f.open(limits, 0);
  const std::vector<int32_t> prompt = f.list[2].tokens;
  const std::vector<float> whole = logits_in_chunks(engine, prompt, prompt.size());
  feed(engine, 1, part_of(prompt, 0, 20));
  feed(engine, 2, {5});
  CHECK_THROWS_WITH(feed(engine, 3, {5}), "the KV cache of 2 recurrent states has 0 free, 1 are needed");
  CHECK_THROWS(feed(engine, 3, {5}, 1));
  CHECK_THROWS_WITH(engine.fork_sequence(1, 3, 16),
                    "sequence 1 has a recurrent state behind its 20 tokens, not behind 16");
  engine.check_integrity();
  // The fork shares the state until one of both goes on.
  engine.fork_sequence(1, 3, 20);
  CHECK_THROWS(feed(engine, 3, {5}));
  release(engine, {2});
  const size_t vocab = engine.spec().vocab;
  for (const int32_t id : {3, 1}) {
    CHECK(same_bits(feed(engine, id, part_of(prompt, 20, 20)).logits, part_of(whole, 20 * vocab, 20 * vocab)));
  }
}

TEST_CASE("recurrent: pages are kept and shared without a state, and a kept state goes on with the same bits") {
  const PackedFixture f("qwen3-next-tiny");
  const std::vector<int32_t> prompt = f.list[2].tokens, end = part_of(prompt, 32, prompt.size() - 32);
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    BatchLimits limits = limits_on(device);
    limits.kv_states = 2;
    Engine engine = f.open(limits, 0);
    const size_t vocab = engine.spec().vocab;
    const KvCache& cache = engine.cache();
    const size_t states = cache.group_of(0), keys = cache.group_of(3);
    const std::vector<float> whole =
        part_of(logits_in_chunks(engine, prompt, prompt.size()), 32 * vocab, end.size() * vocab);
    feed(engine, 1, part_of(prompt, 0, 32));
    engine.keep_pages(1, 2, 32);
    engine.keep_pages(2, 3, 16);
    engine.fork_sequence(1, 4, 32);
    engine.check_integrity();
    CHECK(cache.pages_in_use(states) == 1);
    CHECK(cache.pages_in_use(keys) == 2);
    const std::string bare = "sequence 2 has no recurrent state: a pass of it failed, or it keeps pages alone";
    CHECK_THROWS_WITH(feed(engine, 2, {5}), ("batch: " + bare).c_str());
    CHECK_THROWS_WITH(engine.fork_sequence(2, 5, 32), bare.c_str());
    release(engine, {1});
    // The kept state is copied before the sequence goes on.
    engine.fork_sequence(4, 1, 32);
    CHECK(same_bits(feed(engine, 1, end).logits, whole));
    CHECK(cache.pages_in_use(states) == 2);
    release(engine, {1});
    // Sequence 5 takes the pages of sequence 2 in place of its own, and keeps its state.
    feed(engine, 5, part_of(prompt, 0, 36));
    CHECK(cache.pages_in_use(keys) == 2 + 3);
    engine.share_pages(5, 2, 32);
    CHECK(cache.pages_in_use(keys) == 2 + 1);
    CHECK(same_bits(feed(engine, 5, part_of(prompt, 36, prompt.size() - 36)).logits,
                    part_of(whole, 4 * vocab, (end.size() - 4) * vocab)));
    release(engine, {2, 3, 4, 5});
    CHECK(cache.pages_in_use(states) + cache.pages_in_use(keys) == 0);
  }
}

TEST_CASE("recurrent: a sequence whose pass failed is not continued, others are") {
  const PackedFixture f("qwen3-next-tiny");
  Engine engine = f.open(limits_on(DeviceKind::kCpu), 0);
  const std::vector<int32_t> prompt = f.list[2].tokens;
  const std::vector<float> whole = logits_in_chunks(engine, prompt, prompt.size());
  feed(engine, 1, part_of(prompt, 0, 20));
  feed(engine, 2, part_of(prompt, 0, 20));
  const std::string experts = f.pack.path() + "/experts.sida";
  const auto bytes = std::filesystem::file_size(experts);
  std::filesystem::copy_file(experts, experts + ".whole");
  std::filesystem::resize_file(experts, 0);
  CHECK_THROWS(feed(engine, 1, part_of(prompt, 20, 20)));
  CHECK_THROWS(feed(engine, 3, {5}));
  engine.check_integrity();
  // Reads of a failed pass may still be on their way, and fail for the next one too.
  const auto loading = [&] {
    const auto states = engine.store().snapshot().state;
    return std::ranges::find(states, static_cast<uint8_t>(ResidencyState::kLoading)) != states.end();
  };
  while (loading()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  {
    std::ifstream from(experts + ".whole", std::ios::binary);
    std::fstream to(experts, std::ios::binary | std::ios::in | std::ios::out);
    to << from.rdbuf();
  }
  CHECK(std::filesystem::file_size(experts) == bytes);
  const std::string lost = "sequence 1 has no recurrent state: a pass of it failed, or it keeps pages alone";
  CHECK_THROWS_WITH(feed(engine, 1, {5}), ("batch: " + lost).c_str());
  CHECK_THROWS_WITH(feed(engine, 4, {5}, 1), ("batch: " + lost).c_str());
  CHECK_THROWS_WITH(engine.fork_sequence(1, 4, 20), lost.c_str());
  const size_t vocab = engine.spec().vocab;
  CHECK(same_bits(feed(engine, 2, part_of(prompt, 20, 20)).logits, part_of(whole, 20 * vocab, 20 * vocab)));
  // One that began in the failed pass begins anew.
  CHECK(same_bits(feed(engine, 3, part_of(prompt, 0, 1)).logits, part_of(whole, 0, vocab)));
  release(engine, {1});
  CHECK(same_bits(feed(engine, 1, prompt).logits, whole));
}

}  // namespace
