#include "ops/pick_tokens.h"

#include "core/portable_math.h"
#include "ops/random_numbers.h"
#include "support/math_bits.h"

namespace {

/// The rows of scripts/math-bits.mjs.
std::vector<float> row_of(size_t vocab, uint32_t seed, uint32_t levels) {
  std::vector<float> logits(vocab);
  for (float& logit : logits) {
    seed = seed * 1664525 + 1013904223;
    logit = static_cast<float>(static_cast<double>((seed >> 8) % levels) / levels * 40 - 20);
  }
  return logits;
}

std::vector<int32_t> falling_ids(const std::vector<float>& logits) {
  std::vector<int32_t> ids = first_numbers(logits.size());
  std::ranges::stable_sort(ids, [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return ids;
}

struct Candidate {
  int32_t id;
  double weight;
};

/// The tokens that sampling draws from, computed plainly: everything sorted, and one filter after the other.
std::vector<Candidate> candidates(const std::vector<float>& logits, const Sampling& sampling) {
  std::vector<Candidate> kept;
  const std::vector<int32_t> ids = falling_ids(logits);
  const double most = logits[ids[0]];
  for (int32_t id : ids) kept.push_back({id, portable_exp((logits[id] - most) / sampling.temperature)});
  const auto mass = [&](size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += kept[i].weight;
    return sum;
  };
  if (sampling.top_k > 0 && sampling.top_k < kept.size()) kept.resize(sampling.top_k);
  if (sampling.top_p < 1) {
    const double wanted = sampling.top_p * mass(kept.size());
    size_t count = 1;
    for (double sum = kept[0].weight; sum < wanted && count < kept.size(); ++count) sum += kept[count].weight;
    kept.resize(count);
  }
  while (kept.back().weight < sampling.min_p) kept.pop_back();
  return kept;
}

int32_t reference_pick(const std::vector<float>& logits, const Sampling& sampling) {
  const std::vector<Candidate> kept = candidates(logits, sampling);
  double total = 0;
  for (const Candidate& candidate : kept) total += candidate.weight;
  const double target = total * uniform_number(sampling.seed, sampling.position);
  double sum = 0;
  for (const Candidate& candidate : kept) {
    sum += candidate.weight;
    if (sum > target) return candidate.id;
  }
  return kept.back().id;
}

int32_t pick(const std::vector<float>& logits, const Sampling& sampling) { return pick_token(logits, sampling, {}).id; }

std::map<int32_t, int> picks(const std::vector<float>& logits, Sampling sampling, int count) {
  std::map<int32_t, int> found;
  for (int i = 0; i < count; ++i, ++sampling.position) ++found[pick(logits, sampling)];
  return found;
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

}  // namespace

TEST_CASE("the greedy token, log-probabilities and the most likely tokens have the bits of JavaScript's") {
  for (const auto& line : math_bits("row")) {
    const auto number = [&](size_t i) { return static_cast<uint32_t>(std::stoul(line[i])); };
    const std::vector<float> logits = row_of(number(0), number(1), number(2));
    CASE(logits.size());
    std::vector<RankedToken> top(line.size() - 5);
    const PickedToken picked = pick_token(logits, {}, top);
    CHECK(picked.id == std::stoi(line[3]));
    std::vector<int32_t> ids;
    std::vector<double> expected;
    for (size_t i = 0; i < top.size(); ++i) {
      const std::string& word = line[5 + i];
      const size_t colon = word.find(':');
      ids.push_back(std::stoi(word));
      expected.push_back(double_of_hex(word.substr(colon + 1)));
      CHECK(top[i].id == ids[i]);
      CHECK(top[i].logprob == expected[i]);
    }
    CHECK(picked.logprob == expected[0]);
    std::vector<double> scores(ids.size());
    token_logprobs(logits, ids, scores);
    CHECK(scores == expected);
    CHECK(logits[ids[0]] - double_of_hex(line[4]) == expected[0]);
  }
}

TEST_CASE("the most likely tokens are ranked like a full sort") {
  for (const auto& [levels, count] : grid(std::vector{3u, 50u, 1u << 24}, Sizes{1, 2, 20, 500})) {
    const std::vector<float> logits = row_of(500, 9, levels);
    std::vector<RankedToken> top(count);
    pick_token(logits, {}, top);
    for (size_t i = 0; i < count; ++i) CHECK(top[i].id == falling_ids(logits)[i]);
  }
}

TEST_CASE("at temperature 0 the lowest id wins ties and the other settings are ignored") {
  const std::vector<float> logits = {-1, 0.0f, 3, -0.0f, 3};
  CHECK(pick(logits, {}) == 2);
  CHECK(pick(logits, {.top_p = 0.1f, .min_p = 1, .top_k = 3, .seed = 5, .position = 9}) == 2);
  CHECK(pick({-0.0f, 0.0f}, {}) == 0);
  CHECK(pick({0.0f, -0.0f}, {}) == 0);
}

TEST_CASE("sampled tokens are those of a plain reference") {
  const std::vector<Sampling> settings = {
      {.temperature = 1},
      {.temperature = 0.7f, .top_p = 0.9f},
      {.temperature = 0.7f, .top_p = 0.9f, .top_k = 20},
      {.temperature = 1.3f, .min_p = 0.02f},
      {.temperature = 5, .top_p = 0.97f, .min_p = 0.001f, .top_k = 300},
      {.temperature = 0.05f},
      {.temperature = 1000},
      {.temperature = 1e-3f, .top_k = 100},
      {.temperature = 2, .top_p = 0.5f, .top_k = 1000000},
  };
  const std::vector<float> normal = random_floats(3000, 4);
  std::vector<float> peaked(normal);
  for (float& logit : peaked) logit *= 3;
  std::vector<float> masked(peaked);
  for (size_t id = 0; id < masked.size(); id += 3) masked[id] = -1e9f;
  for (const auto& [logits, setting] :
       grid(std::vector{normal, peaked, masked, row_of(2000, 8, 5), row_of(3, 8, 1 << 24)}, settings)) {
    CASE(setting.temperature, logits.size());
    Sampling sampling = setting;
    sampling.seed = 0x123456789abcdef;
    for (; sampling.position < 60; ++sampling.position) {
      CHECK(pick(logits, sampling) == reference_pick(logits, sampling));
    }
  }
}

TEST_CASE("only tokens that pass the filters are drawn") {
  const std::vector<float> logits = logits_of({0.05, 0.4, 0.1, 0.3, 0.15});
  const auto drawn = [&](Sampling sampling) {
    sampling.temperature = 1;
    std::vector<int32_t> ids;
    for (const auto& [id, count] : picks(logits, sampling, 2000)) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  CHECK(drawn({}) == Ids{0, 1, 2, 3, 4});
  CHECK(drawn({.top_k = 3}) == Ids{1, 3, 4});
  CHECK(drawn({.top_k = 99}) == Ids{0, 1, 2, 3, 4});
  CHECK(drawn({.top_p = 0.69f}) == Ids{1, 3});
  CHECK(drawn({.top_p = 0.71f}) == Ids{1, 3, 4});
  CHECK(drawn({.min_p = 0.3f}) == Ids{1, 3, 4});
  CHECK(drawn({.min_p = 0.8f}) == Ids{1});
  // top_p counts among what top_k leaves: 0.4 is 57 % of 0.7.
  CHECK(drawn({.top_p = 0.55f, .top_k = 2}) == Ids{1});
  CHECK(drawn({.top_p = 0.6f, .top_k = 2}) == Ids{1, 3});
  // And before min_p takes tokens out: of 0.7, left by min_p, 0.4 would be enough.
  CHECK(drawn({.top_p = 0.55f, .min_p = 0.5f}) == Ids{1, 3});
}

TEST_CASE("a filter leaves at least one token, and the lowest ids of ties") {
  const std::vector<float> equal(6, 2.5f);
  const auto drawn = [&](Sampling sampling) {
    sampling.temperature = 1;
    return picks(equal, sampling, 500).size();
  };
  CHECK(picks(equal, {.temperature = 1, .top_p = 1e-30f}, 50) == std::map<int32_t, int>{{0, 50}});
  CHECK(picks(equal, {.temperature = 1, .top_k = 1}, 50) == std::map<int32_t, int>{{0, 50}});
  CHECK(drawn({.top_k = 4}) == 4);
  CHECK(drawn({.top_p = 0.5f}) == 3);
  CHECK(drawn({.min_p = 1}) == 6);
  CHECK(picks({-1, 4, 4, 3.9f}, {.temperature = 1, .min_p = 1}, 200).size() == 2);
}

TEST_CASE("extreme temperatures and logits are drawn from") {
  const std::vector<float> logits = {3, 1, 3.0001f, 2};
  const float smallest = std::numeric_limits<float>::denorm_min();
  const float largest = std::numeric_limits<float>::max();
  CHECK(picks(logits, {.temperature = smallest}, 50) == std::map<int32_t, int>{{2, 50}});
  CHECK(picks(logits, {.temperature = largest}, 400).size() == 4);
  CHECK(picks({-largest, largest, 0}, {.temperature = 1}, 50) == std::map<int32_t, int>{{1, 50}});
  CHECK(picks({-largest, largest}, {.temperature = largest}, 400).size() == 2);
  CHECK(picks({-largest, largest, largest}, {.temperature = smallest, .top_k = 3}, 200).size() == 2);
  CHECK(pick({-7.0f}, {.temperature = 1, .top_p = 0.5f, .min_p = 0.5f, .top_k = 1}) == 0);
}

TEST_CASE("the log-probability of a drawn token is that of the model") {
  const std::vector<float> logits = logits_of({0.5, 0.25, 0.25});
  std::vector<RankedToken> top(3);
  const PickedToken picked = pick_token(logits, {.temperature = 3, .top_k = 2, .seed = 11}, top);
  CHECK(picked.logprob == top[static_cast<size_t>(picked.id)].logprob);
  CHECK(top[1].logprob == doctest::Approx(std::log(0.25)));
}

TEST_CASE("a pick depends on logits, settings, seed and position alone") {
  const std::vector<float> logits = random_floats(5000, 3);
  const auto sequence = [&](uint64_t seed) {
    std::vector<int32_t> ids;
    for (uint64_t i = 0; i < 64; ++i) ids.push_back(pick(logits, {.temperature = 1, .seed = seed, .position = i}));
    return ids;
  };
  const std::vector<int32_t> expected = sequence(1);
  CHECK(sequence(2) != expected);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&] { ids = sequence(1); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : found) CHECK(ids == expected);
}

TEST_CASE("a logit that is not finite is an error that names it") {
  using Value = std::pair<float, std::string>;
  for (const auto& [value, id] :
       grid(std::vector<Value>{{NAN, "NaN"}, {kInfinity, "Infinity"}, {-kInfinity, "-Infinity"}}, Sizes{0, 17, 99})) {
    std::vector<float> logits(100, 1.0f);
    logits[id] = logits[99] = value.first;
    std::vector<double> scores(1);
    for (const std::function<void()>& action :
         std::vector<std::function<void()>>{[&] { pick(logits, {}); }, [&] { pick(logits, {.temperature = 1}); },
                                            [&] { token_logprobs(logits, std::vector<int32_t>{3}, scores); }}) {
      const Error error = thrown_by(action, "nonfinite_output");
      CHECK(error.what() == "The model gave " + value.second + " as the logit of token " + std::to_string(id));
      CHECK(error.numbers().at("token") == static_cast<double>(id));
    }
  }
}

TEST_CASE("a token outside the vocabulary is an error with numbers") {
  const std::vector<float> logits(4, 0.0f);
  std::vector<double> scores(1);
  const auto score = [&](int32_t id) { token_logprobs(logits, std::vector<int32_t>{id}, scores); };
  check_error([&] { score(4); }, {"token 4", "vocabulary of 4"}, "internal");
  check_error([&] { score(-1); }, {"token -1", "vocabulary of 4"}, "internal");
  std::vector<RankedToken> top(5);
  check_error([&] { pick_token(logits, {}, top); }, {"5 most likely of 4"}, "internal");
}

TEST_CASE("only allowed tokens are picked, as if there were no others") {
  const size_t vocab = 1003;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    const std::vector<float> logits = row_of(vocab, seed, 97);
    std::vector<uint32_t> bitmap(bitmap_words(vocab));
    std::vector<float> own;
    std::vector<int32_t> ids;
    for (size_t id = seed; id < vocab; id += 3 * seed) {
      bitmap[id / 32] |= 1u << id % 32;
      own.push_back(logits[id]);
      ids.push_back(static_cast<int32_t>(id));
    }
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1, .seed = seed},
                                     Sampling{.temperature = 0.7f, .top_p = 0.8f, .min_p = 0.01f, .top_k = 40}}) {
      for (uint64_t position = 0; position < 50; ++position) {
        Sampling at = sampling;
        at.position = position;
        const PickedToken picked = pick_token(logits, at, {}, {}, bitmap);
        CHECK(picked.id == ids[static_cast<size_t>(pick(own, at))]);
        double logprob;
        token_logprobs(logits, std::span(&picked.id, 1), std::span(&logprob, 1));
        CHECK(picked.logprob == logprob);
      }
    }
  }
}

TEST_CASE("a bitmap of all tokens changes nothing, and the most likely tokens are the model's own") {
  const std::vector<float> logits = row_of(100, 5, 1000);
  std::vector<uint32_t> all(bitmap_words(100), ~0u);
  for (uint64_t position = 0; position < 50; ++position) {
    const Sampling sampling{.temperature = 1, .seed = 9, .position = position};
    CHECK(pick_token(logits, sampling, {}, {}, all).id == pick(logits, sampling));
  }
  std::vector<uint32_t> one(bitmap_words(100));
  const int32_t least = falling_ids(logits).back();
  one[static_cast<size_t>(least) / 32] = 1u << least % 32;
  std::vector<RankedToken> top(3);
  CHECK(pick_token(logits, {}, top, {}, one).id == least);
  CHECK(top[0].id == falling_ids(logits)[0]);
}

TEST_CASE("a bitmap that allows no token, or of another size, is a bug of the caller") {
  const std::vector<float> logits = row_of(40, 5, 1000);
  const std::vector<uint32_t> none = {0, 1u << 20};
  error_of([&] { pick_token(logits, {}, {}, {}, none); }, "internal");
  error_of([&] { pick_token(logits, {}, {}, {}, std::span(none).first(1)); }, "internal");
}

TEST_CASE("philox gives the published answers") {
  // tests/kat_vectors of Random123, "philox4x32 10".
  using Block = std::array<uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a random number is the first 53 bits of its block, by all bits of seed and position") {
  // Counter 0 and key 0: the block above, its second word high.
  CHECK(uniform_number(0, 0) == static_cast<double>(0xe169c58d6627e8d5 >> 11) / 9007199254740992.0);
  CHECK(uniform_number(0, 1) != uniform_number(1, 0));
  for (int bit = 0; bit < 64; ++bit) {
    CHECK(uniform_number(uint64_t{1} << bit, 0) != uniform_number(0, 0));
    CHECK(uniform_number(0, uint64_t{1} << bit) != uniform_number(0, 0));
  }
}
