// Decoder-only families against Hugging Face transformers: every fixture and every case at several budgets, with the
// same bits for every division of a prompt into chunks.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "doctest/doctest.h"
#include "support/decoder_prompts.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/routing_table.h"
#include "support/test_pack.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_prompts;
using testing::fixture;
using testing::logits_in_chunks;
using testing::pass_of;
using testing::Prompt;
using testing::relative_error;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::TempDir;

std::vector<double> softmax(const float* logits, size_t count) {
  const double top = *std::max_element(logits, logits + count);
  std::vector<double> values(count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i] = std::exp(static_cast<double>(logits[i]) - top);
  for (double& value : values) value /= sum;
  return values;
}

/// The tokens whose experts are not those of `expected` (tokens, k), as sets.
size_t routed_elsewhere(const uint16_t* chosen, const std::vector<int64_t>& expected, size_t k) {
  size_t wrong = 0;
  for (size_t begin = 0; begin < expected.size(); begin += k) {
    const auto at = expected.begin() + static_cast<long>(begin);
    wrong += std::set<int64_t>(chosen + begin, chosen + begin + k) != std::set<int64_t>(at, at + static_cast<long>(k));
  }
  return wrong;
}

/// The experts that softmax probabilities of these logits choose.
std::vector<int64_t> most_likely(const std::vector<float>& logits, size_t experts, size_t k) {
  std::vector<int64_t> chosen;
  for (size_t begin = 0; begin < logits.size(); begin += experts) {
    const auto probabilities = softmax(logits.data() + begin, experts);
    std::vector<int64_t> order(experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return probabilities[a] > probabilities[b]; });
    chosen.insert(chosen.end(), order.begin(), order.begin() + static_cast<long>(k));
  }
  return chosen;
}

/// Chosen experts equal as sets; router logits, where the fixture has them, within 1e-4.
void check_routing(const Cases& cases, const std::string& prefix, const Run& found, const ModelSpec& spec,
                   size_t tokens) {
  const size_t experts = spec.experts(), k = spec.top_k();
  const std::vector<std::string> layers = spec.moe_layers();
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string number = layers[layer].substr(layers[layer].find('.') + 1);
    const std::string logits = prefix + "router." + number + ".logits";
    std::vector<int64_t> expected;
    if (cases.has(logits)) {
      const auto wanted = cases.read<float>(logits);
      const float* own = found.router.data() + layer * tokens * experts;
      CHECK(relative_error({own, own + tokens * experts}, wanted) < 1e-4);
      expected = most_likely(wanted, experts, k);
    } else {
      expected = cases.read<int64_t>(prefix + "moe." + number + ".experts");
    }
    REQUIRE(expected.size() == tokens * k);
    const size_t wrong = routed_elsewhere(found.dispatch.data() + layer * tokens * k, expected, k);
    CHECK_MESSAGE(wrong == 0, prefix << layers[layer] << ": " << wrong << " of " << tokens << " tokens");
  }
}

/// Greedy continuation after the prompt, the prompt itself in one pass.
std::vector<int32_t> continuation(Engine& engine, const std::vector<int32_t>& prompt, size_t count) {
  const std::vector<int32_t> sequence{1}, offsets{0, static_cast<int32_t>(prompt.size())};
  Batch batch = pass_of(0, sequence, offsets, prompt);
  const Pick pick{static_cast<int32_t>(prompt.size()) - 1, {}, 0};
  batch.picks = {&pick, 1};
  const int32_t first = run(engine, batch).picked[0].id;
  const auto ids = testing::greedy(engine, 1, first, count - 1);
  engine.release_sequences(sequence);
  return ids;
}

void check_fixture(const std::string& name, DeviceKind device) {
  const std::string directory = fixture(name);
  CAPTURE(name);
  CAPTURE(testing::device_name(device));
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const std::vector<Prompt> prompts = decoder_prompts(cases, directory);
  BatchLimits limits{320, 1024, 2};
  limits.device = device;
  std::vector<std::vector<float>> resident;
  for (const double share : testing::shares_on(device)) {
    CAPTURE(share);
    Engine engine(testing::options_for(pack.path(), limits, share));
    for (size_t i = 0; i < prompts.size(); ++i) {
      const std::string prefix = "c" + std::to_string(i) + ".";
      CAPTURE(prefix);
      const auto& prompt = prompts[i].tokens;
      const std::vector<int32_t> sequence{1}, offsets{0, static_cast<int32_t>(prompt.size())};
      const Run whole = run(engine, pass_of(0, sequence, offsets, prompt));
      engine.release_sequences(sequence);
      check_routing(cases, prefix, whole, engine.spec(), prompt.size());
      const std::vector<float> logits = logits_in_chunks(engine, prompt, prompt.size());
      CHECK(relative_error(logits, cases.read<float>(prefix + "logits")) < 1e-4);
      if (share == 1.0) {
        resident.push_back(logits);
        if (!(testing::emulated(device) || testing::kSanitized) || prompt.size() < 50) {
          CHECK(same_bits(logits_in_chunks(engine, prompt, 7), logits));
          CHECK(same_bits(logits_in_chunks(engine, prompt, 1), logits));
        }
      } else {
        CHECK(same_bits(logits, resident[i]));
      }
      CHECK(continuation(engine, prompt, prompts[i].greedy.size()) == prompts[i].greedy);
      CHECK(engine.cache().free_pages() == engine.cache().pages());
    }
    CHECK(engine.memory().peak() <= engine.memory().budget());
  }
}

TEST_CASE("oracle: decoder-only models match transformers, in one pass, in chunks and token by token") {
  for (const char* name : testing::kDecoderFixtures) {
    for (const DeviceKind device : testing::devices()) check_fixture(name, device);
  }
}

TEST_CASE("oracle: further decoder-only fixtures match transformers") {
  for (const std::string& name : testing::further_fixtures()) {
    if (Cases(fixture(name)).has("c0.decoder_input_ids")) continue;
    for (const DeviceKind device : testing::devices()) {
      try {
        check_fixture(name, device);
      } catch (const Error& error) {
        FAIL_CHECK(name << ": " << std::string(error.what()));
      }
    }
  }
}

/// Largest relative error that a packed type's logits of a prompt may have against transformers in float32, about twice
/// what was measured. The fixtures' weights are random, so a router's near ties may fall otherwise: for up to two pairs
/// of token and layer in bf16 and int8, for up to five in int4, whose bounds are wide for it.
struct PackedBound {
  WeightFormat experts, dense;
  double error;
  const char* prompt = "c1.";
};

struct PackedFixture {
  std::string name;
  std::vector<PackedBound> bounds;
};

constexpr WeightFormat kInt8{WeightType::kInt8, 0}, kInt4{WeightType::kInt4, 32};

/// Logits of a prompt, the same bits at every budget.
std::vector<float> packed_logits(const std::string& pack, DeviceKind device, const std::vector<int32_t>& prompt) {
  BatchLimits limits{64, 64, 2};
  limits.device = device;
  std::vector<float> resident;
  for (const double share : testing::shares_on(device)) {
    Engine engine(testing::options_for(pack, limits, share));
    const std::vector<float> logits = logits_in_chunks(engine, prompt, 4);
    if (share == 1.0) {
      resident = logits;
    } else {
      CAPTURE(share);
      CHECK(same_bits(logits, resident));
    }
  }
  return resident;
}

std::vector<int32_t> prompt_of(const Cases& cases, const std::string& prefix) {
  const auto ids = cases.read<int64_t>(prefix + "input_ids");
  return {ids.begin(), ids.end()};
}

TEST_CASE("oracle: packed types of decoder-only models stay within their bounds, with the same bits at every budget") {
  const PackedFixture fixtures[] = {
      {"olmoe-tiny",
       {{kBf16Format, kBf16Format, 0.02}, {kInt8, kF32Format, 0.02}, {kInt8, kInt8, 0.1}, {kInt4, kInt8, 0.2}}},
      {"mixtral-tiny", {{kBf16Format, kBf16Format, 0.02}, {kInt8, kF32Format, 0.02}, {kInt4, kF32Format, 0.3, "c0."}}},
      {"qwen2-moe-tiny", {{kBf16Format, kBf16Format, 0.06}, {kInt8, kF32Format, 0.01}, {kInt4, kF32Format, 0.15}}},
      {"qwen3-moe-tiny", {{kBf16Format, kBf16Format, 0.03}, {kInt8, kF32Format, 0.02}, {kInt4, kF32Format, 0.4}}},
      {"gpt-oss-tiny", {{kBf16Format, kBf16Format, 0.02}, {kInt8, kF32Format, 0.03}, {kInt4, kF32Format, 0.4}}},
      {"glm4-moe-tiny", {{kBf16Format, kBf16Format, 0.03}, {kInt8, kF32Format, 0.01}, {kInt4, kF32Format, 0.4}}},
      {"deepseek-v2-lite-tiny",
       {{kBf16Format, kBf16Format, 0.02}, {kInt8, kF32Format, 0.01}, {kInt4, kF32Format, 0.15}}},
      {"deepseek-v3-tiny",
       {{kBf16Format, kBf16Format, 0.03}, {kInt8, kF32Format, 0.02}, {kInt4, kF32Format, 0.5, "c0."}}},
  };
  for (const PackedFixture& row : fixtures) {
    const std::string directory = fixture(row.name);
    CAPTURE(row.name);
    const Cases cases(directory);
    for (const PackedBound& bound : row.bounds) {
      CAPTURE(std::string(weight_type_name(bound.experts.type)));
      CAPTURE(std::string(weight_type_name(bound.dense.type)));
      TempDir pack;
      testing::write_pack(directory, pack.path(), bound.experts, bound.dense);
      for (const DeviceKind device : testing::devices()) {
        CAPTURE(testing::device_name(device));
        const std::vector<float> logits = packed_logits(pack.path(), device, prompt_of(cases, bound.prompt));
        CHECK(relative_error(logits, cases.read<float>(bound.prompt + std::string("logits"))) < bound.error);
      }
    }
  }
}

TEST_CASE("oracle: experts packed as mxfp4 are those of the checkpoint, as they are in f32") {
  const std::string directory = fixture("gpt-oss-tiny");
  const Cases cases(directory);
  TempDir wide, narrow;
  testing::write_pack(directory, wide.path());
  testing::write_pack(directory, narrow.path(), kMxfp4Format);
  const std::vector<int32_t> prompt = prompt_of(cases, "c2.");
  for (const DeviceKind device : testing::devices()) {
    CAPTURE(testing::device_name(device));
    const std::vector<float> expected = packed_logits(wide.path(), device, prompt);
    const std::vector<float> logits = packed_logits(narrow.path(), device, prompt);
    CHECK(relative_error(logits, expected) < 1e-5);
    CHECK(relative_error(logits, cases.read<float>("c2.logits")) < 1e-5);
  }
}

}  // namespace
}  // namespace sida
