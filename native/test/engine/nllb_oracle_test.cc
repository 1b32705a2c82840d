// NLLB-MoE, an encoder-decoder with layer norms, biases and sinusoidal positions, against Hugging Face transformers at
// several budgets; packed types; padding inside of inputs.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/json.h"
#include "doctest/doctest.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/routing_table.h"
#include "support/test_pack.h"
#include "support/text_file.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_inputs_of;
using testing::DecoderInputs;
using testing::fixture;
using testing::Inputs;
using testing::inputs_of;
using testing::pass_of;
using testing::relative_error;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::TempDir;

constexpr const char* kFixture = "nllb-moe-tiny";

BatchLimits limits_on(DeviceKind device) {
  BatchLimits limits{320, 1024, 2};
  limits.device = device;
  return limits;
}

std::vector<int32_t> ids_of(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.elements()) ids.push_back(static_cast<int32_t>(id.as_i64()));
  return ids;
}

/// Router logits within 1e-4, and the experts of each token those that the reference gives a weight.
void check_routing(const Cases& cases, const std::string& prefix, size_t stack, const Run& found,
                   const ModelSpec& spec, const Inputs* padded, size_t tokens) {
  const size_t experts = spec.experts(), k = spec.top_k();
  size_t place = 0;
  for (size_t layer = 0; layer < spec.stacks[stack].layers.size(); ++layer) {
    if (spec.stacks[stack].layers[layer].moe() == nullptr) continue;
    const std::string router =
        prefix + "model." + spec.stacks[stack].name + ".layers." + std::to_string(layer) + ".ffn.router.";
    CAPTURE(router);
    auto logits = cases.read<float>(router + "logits"), weights = cases.read<float>(router + "weights");
    if (padded != nullptr) {
      logits = padded->real_rows(logits);
      weights = padded->real_rows(weights);
    }
    const float* own = found.router.data() + place * tokens * experts;
    CHECK(relative_error({own, own + tokens * experts}, logits) < 1e-4);
    size_t wrong = 0;
    for (size_t t = 0; t < tokens; ++t) {
      std::set<size_t> expected;
      for (size_t e = 0; e < experts; ++e) {
        if (weights[t * experts + e] > 0) expected.insert(e);
      }
      const uint16_t* chosen = found.dispatch.data() + (place * tokens + t) * k;
      wrong += std::set<size_t>(chosen, chosen + k) != expected;
    }
    CHECK(wrong == 0);
    ++place;
  }
}

/// Greedy tokens after `given`, those included.
std::vector<int32_t> continuation(Engine& engine, int32_t parent, const std::vector<int32_t>& given, size_t count) {
  const std::vector<int32_t> sequence{500}, parents{parent}, offsets{0, static_cast<int32_t>(given.size())};
  Batch batch = pass_of(1, sequence, offsets, given, parents);
  const Pick pick{static_cast<int32_t>(given.size()) - 1, {}, 0};
  batch.picks = {&pick, 1};
  const int32_t first = run(engine, batch).picked[0].id;
  std::vector<int32_t> ids = given;
  const auto more = testing::greedy(engine, sequence[0], first, count - given.size() - 1);
  ids.insert(ids.end(), more.begin(), more.end());
  engine.release_sequences(sequence);
  return ids;
}

void check_on(DeviceKind device, const std::string& from) {
  CAPTURE(testing::device_name(device));
  TempDir pack;
  testing::write_pack(from, pack.path());
  const Cases cases(from);
  const auto list = JsonDocument::parse(read_text_file(from + "/cases.json", 1 << 20), {"cases.json"});
  std::vector<std::vector<float>> resident;
  for (const double share : testing::shares_on(device)) {
    CAPTURE(share);
    Engine engine(testing::options_for(pack.path(), limits_on(device), share));
    size_t index = 0;
    for (const JsonValue& entry : list.root().elements()) {
      const std::string prefix = entry.at("case").as_string() + ".";
      CAPTURE(prefix);
      const Inputs in = inputs_of(cases, prefix);
      const Run encoded = run(engine, pass_of(0, in.ids, in.offsets, in.tokens));
      const auto states = in.real_rows(cases.read<float>(prefix + "encoder_last_hidden_state"));
      CHECK(relative_error(encoded.hidden, states) < 1e-4);
      check_routing(cases, prefix, 0, encoded, engine.spec(), &in, in.tokens.size());

      const DecoderInputs own = decoder_inputs_of(cases, prefix, in.batch);
      const Run decoded = run(engine, own.after(in.ids));
      CHECK(relative_error(decoded.logits, cases.read<float>(prefix + "logits")) < 1e-4);
      check_routing(cases, prefix, 1, decoded, engine.spec(), nullptr, own.tokens.size());
      engine.release_sequences(own.sequences);

      const auto forced = static_cast<int32_t>(entry.at("forced_bos_token_id").as_i64());
      size_t row = 0;
      for (const JsonValue& line : entry.at("beam1").elements()) {
        std::vector<int32_t> wanted = ids_of(line);
        const auto found = continuation(engine, in.ids[row++], {*engine.spec().tokens.start, forced}, wanted.size());
        // A finished row of a padded batch goes on with padding in the reference.
        wanted.resize(std::min(wanted.size(), found.size()));
        CHECK(found == wanted);
      }
      engine.release_sequences(in.ids);
      CHECK(engine.cache().free_pages() == engine.cache().pages());

      // Bit for bit the fully resident run, at every budget.
      for (const std::vector<float>* values : {&encoded.hidden, &decoded.logits}) {
        if (share == 1.0) {
          resident.push_back(*values);
        } else {
          CHECK(same_bits(*values, resident[index]));
        }
        ++index;
      }
    }
    CHECK(engine.memory().peak() <= engine.memory().budget());
  }
}

TEST_CASE("oracle: NLLB-MoE matches transformers, its greedy translations after a given language too") {
  const std::string from = fixture(kFixture);
  for (const DeviceKind device : testing::devices()) check_on(device, from);
}

/// Logits of a decoder's tokens after an encoder's, the decoder's in chunks.
std::vector<float> logits_of(Engine& engine, const std::vector<int32_t>& encoder, const std::vector<int32_t>& decoder,
                             size_t chunk) {
  const std::vector<int32_t> parent{0}, sequence{1}, whole{0, static_cast<int32_t>(encoder.size())};
  run(engine, pass_of(0, parent, whole, encoder));
  std::vector<float> logits;
  for (size_t begin = 0; begin < decoder.size(); begin += chunk) {
    const size_t end = std::min(begin + chunk, decoder.size());
    const std::vector<int32_t> tokens(decoder.begin() + static_cast<long>(begin),
                                      decoder.begin() + static_cast<long>(end));
    const std::vector<int32_t> offsets{0, static_cast<int32_t>(tokens.size())};
    std::vector<int32_t> rows;
    for (size_t i = 0; i < tokens.size(); ++i) rows.push_back(static_cast<int32_t>(i));
    Batch batch = pass_of(1, sequence, offsets, tokens, parent);
    batch.logit_rows = rows;
    const Run out = run(engine, batch);
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  engine.release_sequences(sequence);
  engine.release_sequences(parent);
  return logits;
}

TEST_CASE("NLLB-MoE: padding inside of a decoder's tokens takes no position, in chunks of any size and in a child") {
  const std::string from = fixture(kFixture);
  TempDir pack;
  testing::write_pack(from, pack.path());
  const std::vector<int32_t> encoder{20, 1, 30, 40, 2}, decoder{2, 300, 1, 1, 50, 60, 1, 70};
  for (const DeviceKind device : testing::devices()) {
    CAPTURE(testing::device_name(device));
    Engine engine(testing::options_for(pack.path(), limits_on(device), 1.0));
    const std::vector<float> whole = logits_of(engine, encoder, decoder, decoder.size());
    for (const size_t chunk : {size_t{1}, size_t{3}}) CHECK(same_bits(logits_of(engine, encoder, decoder, chunk), whole));

    // A sequence that continues another one goes on with its count.
    const std::vector<int32_t> parent{0}, first{1}, second{2}, all{0, 5}, before{0, 4}, after{0, 4}, rows{0, 1, 2, 3};
    run(engine, pass_of(0, parent, all, encoder));
    run(engine, pass_of(1, first, before, {decoder.begin(), decoder.begin() + 4}, parent));
    Batch batch = pass_of(1, second, after, {}, first);
    const std::vector<int32_t> rest(decoder.begin() + 4, decoder.end());
    batch.tokens = rest;
    batch.logit_rows = rows;
    const Run out = run(engine, batch);
    CHECK(same_bits(out.logits, {whole.begin() + static_cast<long>(4 * engine.spec().vocab), whole.end()}));
  }
}

/// Largest relative error that a packed type's logits of a case may have against transformers in float32, about twice
/// what was measured. The fixture's weights are random, so a router's near ties may fall otherwise, for which the wide
/// bounds leave room.
struct PackedBound {
  WeightFormat experts, dense;
  double error;
  std::string prefix = "c1.";
};

TEST_CASE("oracle: packed types of NLLB-MoE stay within their bounds, with the same bits at every budget") {
  const std::string from = fixture(kFixture);
  constexpr WeightFormat kInt8{WeightType::kInt8, 0}, kInt4{WeightType::kInt4, 32};
  const PackedBound bounds[] = {
      {kBf16Format, kF32Format, 0.005},        {kBf16Format, kBf16Format, 0.012, "c0."},
      {kBf16Format, kBf16Format, 0.17, "c2."}, {kInt8, kF32Format, 0.02},
      {kInt8, kInt8, 0.08, "c0."},             {kInt4, kF32Format, 0.07, "c0."},
      {kInt4, kF32Format, 0.3}};
  const Cases cases(from);
  for (const PackedBound& bound : bounds) {
    CAPTURE(std::string(weight_type_name(bound.experts.type)));
    CAPTURE(std::string(weight_type_name(bound.dense.type)));
    TempDir pack;
    testing::write_pack(from, pack.path(), bound.experts, bound.dense);
    const Inputs in = inputs_of(cases, bound.prefix);
    const DecoderInputs own = decoder_inputs_of(cases, bound.prefix, in.batch);
    for (const DeviceKind device : testing::devices()) {
      CAPTURE(testing::device_name(device));
      std::vector<float> resident;
      for (const double share : testing::shares_on(device)) {
        CAPTURE(share);
        Engine engine(testing::options_for(pack.path(), limits_on(device), share));
        run(engine, pass_of(0, in.ids, in.offsets, in.tokens));
        const Run decoded = run(engine, own.after(in.ids));
        if (share == 1.0) resident = decoded.logits;
        CHECK(same_bits(decoded.logits, resident));
      }
      CHECK(relative_error(resident, cases.read<float>(bound.prefix + "logits")) < bound.error);
    }
  }
}

}  // namespace
}  // namespace sida
