// Predicted mode with a perfect table is exact mode, bit for bit: every Switch fixture, every case.
#include "core/file.h"
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
using testing::fixture;
using testing::Inputs;
using testing::inputs_of;
using testing::pass_of;
using testing::relative_error;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::Table;
using testing::table_of;
using testing::TempDir;

/// Where alpha comes from the CPU's softmax and not the GPU's, its last bits may differ.
void check_same(DeviceKind device, const std::vector<float>& found, const std::vector<float>& expected) {
  if (device == DeviceKind::kCpu) {
    CHECK(same_bits(found, expected));
  } else {
    CHECK(relative_error(found, expected) < 1e-5);
  }
}

void check_own_routing(const std::string& name, DeviceKind device) {
  const std::string directory = fixture(name);
  if (directory.empty()) {
    MESSAGE("SKIPPED: fixture " << name << " needs ../shared/oracle beside the repository");
    return;
  }
  TempDir pack;
  testing::write_pack(directory, pack.path());
  const Cases cases(directory);
  const auto list = JsonDocument::parse(read_text_file(directory + "/cases.json", 1 << 20), {"cases.json"});
  const BatchLimits with_routers{320, 1024, 2, 3, true, ActivationFormat::kF32, device};
  const BatchLimits tables_alone{320, 1024, 2, 1, false, ActivationFormat::kF32, device};
  for (const double share : testing::shares_on(device)) {
    Engine exact(testing::options_for(pack.path(), with_routers, share));
    Engine without_routers(testing::options_for(pack.path(), tables_alone, share));
    const size_t experts = exact.spec().experts();
    for (const JsonValue& entry : list.root().elements()) {
      const std::string prefix = entry.at("case").as_string() + ".";
      CAPTURE(name);
      CAPTURE(testing::device_name(device));
      CAPTURE(prefix);
      CAPTURE(share);
      const Inputs in = inputs_of(cases, prefix);
      const testing::DecoderInputs own = testing::decoder_inputs_of(cases, prefix, in.batch);
      const auto both = [&](Engine& engine, const Table& encoder, const Table& decoder) {
        Batch encode = pass_of(0, in.ids, in.offsets, in.tokens);
        encode.routing = encoder.view();
        Batch decode = own.after(in.ids);
        decode.routing = decoder.view();
        std::pair<Run, Run> out{run(engine, encode), run(engine, decode)};
        engine.release_sequences(own.sequences);
        engine.release_sequences(in.ids);
        return out;
      };
      const Table none{{}, {}, 0};
      const auto [encoded, decoded] = both(exact, none, none);
      const Table encoder = table_of(encoded, experts), decoder = table_of(decoded, experts);
      for (Engine* engine : {&exact, &without_routers}) {
        const auto [by_table, decoded_by_table] = both(*engine, encoder, decoder);
        check_same(device, by_table.hidden, encoded.hidden);
        CHECK(by_table.dispatch == encoded.dispatch);
        check_same(device, decoded_by_table.hidden, decoded.hidden);
        check_same(device, decoded_by_table.logits, decoded.logits);
        CHECK(decoded_by_table.dispatch == decoded.dispatch);
      }
    }
    CHECK(without_routers.memory().peak() <= without_routers.memory().budget());
  }
}

TEST_CASE("predicted routing: the routers' own choice gives the bits of exact mode") {
  for (const char* name :
       {"switch-tiny-capacity4", "switch-tiny", "switch-tiny-untied", "switch-tiny-step1"}) {
    for (const DeviceKind device : testing::devices()) {
      check_own_routing(name, device);
    }
  }
}

}  // namespace
}  // namespace sida
