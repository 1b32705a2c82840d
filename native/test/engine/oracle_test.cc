// The engine against Hugging Face transformers: every Switch fixture, every case, at several residencies.
#include <algorithm>
#include <cstring>

#include "core/file.h"
#include "core/json.h"
#include "doctest/doctest.h"
#include "model/dispatch.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/test_pack.h"
#include "support/text_file.h"

namespace sida {
namespace {

using testing::Cases;
using testing::decoder_inputs_of;
using testing::DecoderInputs;
using testing::fixture;
using testing::greedy;
using testing::Inputs;
using testing::inputs_of;
using testing::pass_of;
using testing::relative_error;
using testing::Run;
using testing::run;
using testing::TempDir;

void check_routing(const Cases& cases, const std::string& prefix, const std::string& stack, const Run& found,
                   const ModelSpec& spec, const Inputs* padded, size_t tokens) {
  const size_t experts = spec.experts();
  size_t layer = 0;
  for (const std::string& name : spec.moe_layers()) {
    if (name.rfind(stack, 0) != 0) continue;
    const std::string router = prefix + stack + ".block." + name.substr(name.find('.') + 1) + ".layer." +
                               (stack == "decoder" ? "2" : "1") + ".mlp.router.";
    const std::vector<float> logits(found.router.begin() + static_cast<long>(layer * tokens * experts),
                                    found.router.begin() + static_cast<long>((layer + 1) * tokens * experts));
    auto wanted = cases.read<float>(router + "logits");
    auto expected = cases.read<int64_t>(router + "dispatch");
    if (padded != nullptr) {
      wanted = padded->real_rows(wanted);
      expected = padded->real_rows(expected);
    }
    CHECK_MESSAGE(relative_error(logits, wanted) < 1e-4, router << "logits");
    size_t wrong = 0;
    for (size_t i = 0; i < tokens; ++i) {
      const uint16_t chosen = found.dispatch[layer * tokens + i];
      wrong += (chosen == kNoExpert ? -1 : chosen) != expected[i];
    }
    CHECK_MESSAGE(wrong == 0, router << "dispatch: " << wrong << " of " << tokens << " differ");
    ++layer;
  }
}

void check_fixture_on(const std::string& name, DeviceKind device) {
  const std::string directory = fixture(name);
  if (directory.empty()) {
    MESSAGE("SKIPPED: fixture " << name << " needs ../shared/oracle beside the repository");
    return;
  }
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const auto expected =
      JsonDocument::parse(read_text_file(directory + "/cases.json", 1 << 20), {"cases.json"});
  BatchLimits limits{320, 1024, 2};
  limits.device = device;
  std::vector<std::vector<float>> resident;
  for (const double share : testing::shares_on(device)) {
    Engine engine(testing::options_for(pack.path(), limits, share));
    size_t index = 0;
    for (const JsonValue& entry : expected.root().elements()) {
      const std::string prefix = entry.at("case").as_string() + ".";
      CAPTURE(name);
      CAPTURE(testing::device_name(device));
      CAPTURE(prefix);
      CAPTURE(share);
      const Inputs in = inputs_of(cases, prefix);
      const Run encoded = run(engine, pass_of(0, in.ids, in.offsets, in.tokens));
      const auto states = in.real_rows(cases.read<float>(prefix + "encoder_last_hidden_state"));
      CHECK(relative_error(encoded.hidden, states) < 1e-4);
      check_routing(cases, prefix, "encoder", encoded, engine.spec(), &in, in.tokens.size());

      const DecoderInputs own = decoder_inputs_of(cases, prefix, in.batch);
      const Run decoded = run(engine, own.after(in.ids));
      CHECK(relative_error(decoded.logits, cases.read<float>(prefix + "logits")) < 1e-4);
      check_routing(cases, prefix, "decoder", decoded, engine.spec(), nullptr, own.tokens.size());
      engine.release_sequences(own.sequences);

      size_t row = 0;
      for (const JsonValue& line : entry.at("greedy").elements()) {
        std::vector<int32_t> wanted;
        for (const JsonValue& id : line.elements()) wanted.push_back(static_cast<int32_t>(id.as_i64()));
        const auto found = greedy(engine, in.ids[row++], *engine.spec().tokens.start, 16);
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
          CHECK(std::memcmp(resident[index].data(), values->data(), values->size() * sizeof(float)) == 0);
        }
        ++index;
      }
    }
    CHECK(engine.memory().peak() <= engine.memory().budget());
  }
}

void check_fixture(const std::string& name) {
  for (const DeviceKind device : testing::devices()) check_fixture_on(name, device);
}

TEST_CASE("oracle: a tied Switch Transformer matches transformers") { check_fixture("switch-tiny"); }
TEST_CASE("oracle: tokens over an expert capacity of 4 contribute nothing") {
  check_fixture("switch-tiny-capacity4");
}
TEST_CASE("oracle: an untied head and heads of 24 match transformers") {
  check_fixture("switch-tiny-untied");
}
TEST_CASE("oracle: a model with every layer sparse matches transformers") {
  check_fixture("switch-tiny-step1");
}
TEST_CASE("oracle: further Switch Transformers match transformers") {
  for (const std::string& name : testing::further_fixtures()) {
    if (name.starts_with("switch")) check_fixture(name);
  }
}

}  // namespace
}  // namespace sida
