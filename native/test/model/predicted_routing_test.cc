// Predicted mode: a table routes in place of the model's routers, up to three experts a token.
#include <cmath>
#include <limits>

#include "core/error.h"
#include "doctest/doctest.h"
#include "support/mixture_reference.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/routing_table.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::fixture;
using testing::random_table;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::Table;
using testing::TempDir;

/// Three sequences of a batch, and decoder sequences with as many tokens after them.
struct Ragged {
  std::vector<int32_t> contexts{1, 2, 3}, sequences{11, 12, 13}, offsets{0, 40, 47, 60}, tokens;

  Ragged() {
    for (int32_t i = 0; i < 60; ++i) tokens.push_back(3 + i * 37 % 500);
  }
  Batch encode(const PredictedRouting& routing) const {
    Batch batch = testing::pass_of(0, contexts, offsets, tokens);
    batch.routing = routing;
    return batch;
  }
  Batch decode(const PredictedRouting& routing) const {
    Batch batch = testing::pass_of(1, sequences, offsets, tokens, contexts);
    batch.routing = routing;
    return batch;
  }
  /// Runs both stacks, releases all sequences, and returns the hidden states of both.
  std::pair<Run, Run> run_both(Engine& engine, const Table& encoder, const Table& decoder) const {
    std::pair<Run, Run> out{run(engine, encode(encoder.view())), run(engine, decode(decoder.view()))};
    engine.release_sequences(sequences);
    engine.release_sequences(contexts);
    return out;
  }
};

constexpr BatchLimits kLimits{320, 1024, 2, 3, false};

void check_against_reference(const Table& encoder, const Table& decoder) {
  TempDir pack;
  testing::write_pack(fixture("switch-tiny-capacity4"), pack.path());
  testing::keep_experts_only(pack.path());
  const testing::MixtureReference reference(pack.path());
  const Ragged ragged;
  Engine engine(testing::options_for(pack.path(), kLimits, 0.5));
  const auto [encoded, decoded] = ragged.run_both(engine, encoder, decoder);
  for (const auto& [found, batch] : {std::pair{encoded, ragged.encode(encoder.view())},
                                     std::pair{decoded, ragged.decode(decoder.view())}}) {
    std::vector<uint16_t> dispatch;
    const std::vector<double> expected = reference.run(batch, dispatch);
    CHECK(found.dispatch == dispatch);
    REQUIRE(found.hidden.size() == expected.size());
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      worst = std::max(
          worst, std::abs(static_cast<double>(found.hidden[i]) - expected[i]) / (1 + std::abs(expected[i])));
    }
    CHECK(worst < 1e-5);
    for (size_t layer = 0; layer < 2; ++layer) {
      for (size_t expert = 0; expert < 8; ++expert) {
        const auto begin = dispatch.begin() + static_cast<long>(layer * dispatch.size() / 2);
        const bool used = std::count(begin, begin + static_cast<long>(dispatch.size() / 2), expert) > 0;
        CHECK((found.found[layer * 8 + expert] != 0) == used);
      }
    }
  }
}

TEST_CASE("predicted routing: three experts a token sum as a float64 loop over the packed experts does") {
  const Table encoder = random_table(2, 60, 3, 8, 1), decoder = random_table(2, 60, 3, 8, 2);
  check_against_reference(encoder, decoder);
}

TEST_CASE("predicted routing: one expert for all tokens serves its capacity, and no expert adds nothing") {
  const size_t entries = 2 * 60 * 3;
  Table nobody{std::vector<uint16_t>(entries, kNoExpert), std::vector<float>(entries, 1.0f), 3};
  Table crowd = nobody;
  for (size_t i = 2; i < entries; i += 3) crowd.experts[i] = 5;
  check_against_reference(crowd, nobody);
  check_against_reference(nobody, crowd);
}

TEST_CASE("predicted routing: the same bits at every budget, thread count, choice order and residency") {
  TempDir pack;
  testing::write_pack(fixture("switch-tiny-untied"), pack.path());
  const Ragged ragged;
  const Table encoder = random_table(2, 60, 3, 8, 3), decoder = random_table(2, 60, 3, 8, 4);
  const auto reversed = [](Table table) {
    for (size_t i = 0; i < table.experts.size(); i += 3) {
      std::swap(table.experts[i], table.experts[i + 2]);
      std::swap(table.alpha[i], table.alpha[i + 2]);
    }
    return table;
  };
  std::vector<float> encoded, decoded;
  for (const double share : {0.0, 0.5, 1.0}) {
    for (const size_t threads : {1, 2, 3}) {
      BatchLimits limits = kLimits;
      limits.threads = threads;
      Engine engine(testing::options_for(pack.path(), limits, share));
      // Pinned experts are resident before those of lower index.
      if (share > 0) engine.store().pin(std::vector<ExpertId>{6, 7, 14, 15, 22, 23, 30, 31}, true);
      for (int round = 0; round < 2; ++round) {
        // No expert reaches its capacity of 64, so the order of a token's choices must not change the result.
        const bool reverse = round == 1;
        const auto [first, second] = ragged.run_both(engine, reverse ? reversed(encoder) : encoder,
                                                     reverse ? reversed(decoder) : decoder);
        if (encoded.empty()) {
          encoded = first.hidden;
          decoded = second.hidden;
        }
        CAPTURE(share);
        CAPTURE(threads);
        CAPTURE(round);
        CHECK(same_bits(first.hidden, encoded));
        CHECK(same_bits(second.hidden, decoded));
      }
    }
  }
}

TEST_CASE("predicted routing: routers left off the device are neither read nor counted") {
  TempDir pack;
  testing::write_pack(fixture("switch-tiny-untied"), pack.path());
  const Ragged ragged;
  const Table encoder = random_table(2, 60, 3, 8, 5), decoder = random_table(2, 60, 3, 8, 6);
  BatchLimits with = kLimits;
  with.routers = true;
  Engine beside(testing::options_for(pack.path(), with, 1.0));
  CHECK(beside.memory().used() == beside.plan().resident());
  const auto expected = ragged.run_both(beside, encoder, decoder);
  testing::fill_dense(pack.path(), {".router"}, '\xff');
  Engine engine(testing::options_for(pack.path(), kLimits, 1.0));
  CHECK(engine.plan().routers == 0);
  CHECK(engine.memory().used() == engine.plan().resident());
  const auto found = ragged.run_both(engine, encoder, decoder);
  CHECK(same_bits(found.first.hidden, expected.first.hidden));
  CHECK(same_bits(found.second.hidden, expected.second.hidden));
}

TEST_CASE("predicted routing: a malformed table is refused by layer and token, and leaves nothing behind") {
  TempDir pack;
  testing::write_pack(fixture("switch-tiny-untied"), pack.path());
  const Ragged ragged;
  const Table good = random_table(2, 60, 3, 8, 7);
  Engine engine(testing::options_for(pack.path(), kLimits, 0.0));
  const auto refused = [&](const Table& table, const std::string& message) {
    try {
      run(engine, ragged.encode(table.view()));
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == "invalid_request");
      CHECK(error.what() == message);
    }
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  };
  // Layer 1, token 20, entries 0 to 2.
  const size_t entry = (60 + 20) * 3;
  Table table = good;
  table.experts[entry + 1] = 8;
  refused(table, "batch: routing of encoder.3, token 20: expert 8 of 8");
  table = good;
  table.experts[entry] = table.experts[entry + 2] = 4;
  table.experts[entry + 1] = kNoExpert;
  refused(table, "batch: routing of encoder.3, token 20: expert 4 is named twice");
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    table = good;
    table.alpha[entry + 2] = bad;
    refused(table, "batch: routing of encoder.3, token 20: alpha is not finite");
  }
  table = good;
  table.alpha.pop_back();
  refused(table, "batch: routing.alpha has 359 entries; expected 360 (2 layers, 60 tokens, k 3)");
  refused({{}, {}, 3}, "batch: routing.experts has 0 entries; expected 360 (2 layers, 60 tokens, k 3)");
  refused({good.experts, good.alpha, 4}, "batch: routing names 4 experts a token; the limit is 3");
  refused({{}, {}, 0}, "batch: no routing, and the routers are not on the device");

  BatchOutput output;
  float logits = 0;
  output.router_logits = &logits;
  CHECK_THROWS_WITH(engine.run(ragged.encode(good.view()), {}, output),
                    "batch: a pass with a routing of its own has no router logits");
  run(engine, ragged.encode(good.view()));
}

}  // namespace
}  // namespace sida
