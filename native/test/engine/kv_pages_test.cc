// What engines keep of keys and values: windows drop pages, bf16 takes half of the bytes, and the plan knows both.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/decoder_prompts.h"
#include "support/devices.h"
#include "support/oracle_cases.h"
#include "support/repo_paths.h"
#include "support/same_bits.h"
#include "support/test_pack.h"
#include "support/text_file.h"

namespace sida {
namespace {

using testing::Cases;
using testing::fixture;
using testing::logits_in_chunks;
using testing::pass_of;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::TempDir;

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBf16};

/// `count` tokens, those of a fixture's longest case again and again.
std::vector<int32_t> long_prompt(const std::string& directory, size_t count) {
  const auto ids = Cases(directory).read<int64_t>("c3.input_ids");
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < count; ++i) prompt.push_back(static_cast<int32_t>(ids[i % ids.size()]));
  return prompt;
}

/// Packs of models whose windows are much shorter than their prompts: in every other layer, and in all.
struct WindowedPack {
  TempDir pack;
  std::vector<int32_t> prompt;
  size_t window, groups;

  static std::unique_ptr<WindowedPack> open(bool all_layers, size_t tokens) {
    const std::string directory = fixture(all_layers ? "mixtral-tiny" : "gpt-oss-tiny");
    auto opened = std::make_unique<WindowedPack>();
    opened->prompt = long_prompt(directory, tokens);
    opened->window = all_layers ? 21 : 16;
    opened->groups = all_layers ? 1 : 2;
    if (!all_layers) {
      testing::write_pack(directory, opened->pack.path());
      return opened;
    }
    TempDir copy;
    std::filesystem::copy(directory, copy.path(), std::filesystem::copy_options::recursive);
    std::string config = read_text_file(copy.path() + "/config.json", 1 << 20);
    const size_t field = config.find("\"sliding_window\"");
    if (field != std::string::npos) config.erase(field, config.find_first_of(",}", field) + 1 - field);
    config.insert(config.find('{') + 1, "\"sliding_window\": 21, ");
    std::filesystem::permissions(copy.path() + "/config.json", std::filesystem::perms::owner_all);
    std::ofstream(copy.path() + "/config.json") << config;
    testing::write_pack(copy.path(), opened->pack.path());
    return opened;
  }
};

TEST_CASE("kv pages: the engine takes the bytes that the plan says, for every family, type and device") {
  std::vector<std::string> names{"switch-tiny", "nllb-moe-tiny"};
  names.insert(names.end(), std::begin(testing::kDecoderFixtures), std::end(testing::kDecoderFixtures));
  for (const std::string& name : names) {
    const std::string directory = fixture(name);
    CAPTURE(name);
    TempDir pack;
    testing::write_pack(directory, pack.path());
    for (const DeviceKind device : testing::devices()) {
      CAPTURE(testing::device_name(device));
      uint64_t wide = 0;
      for (const KvFormat format : kFormats) {
        BatchLimits limits{32, 480, 2};
        limits.device = device;
        limits.kv = format;
        Engine engine(testing::options_for(pack.path(), limits, 0.5));
        const MemoryPlan& plan = engine.plan();
        CHECK(engine.memory().used() == plan.fixed() + engine.store().slots() * plan.slot);
        const ModelSpec& spec = engine.spec();
        // All heads of these fixtures have 16 columns or a multiple.
        uint64_t bytes = 0;
        for (const LayerSpec& layer : spec.last().layers) {
          const AttentionSpec& attention = layer.self;
          const bool windowed = spec.stacks.size() == 1 && attention.window.has_value();
          // A window of 16 leaves 15 keys, which lie in 2 pages, and 32 new tokens take 2.
          const size_t tokens = windowed ? 4 * kPageTokens : 480;
          const size_t row = attention.latent ? (attention.latent->row() + 15) / 16 * 16 : 2 * attention.kv_width();
          bytes += tokens * row * kv_element_bytes(format);
        }
        CHECK(plan.kv_cache == engine.memory().taken(bytes));
        if (format == KvFormat::kF32) wide = bytes;
        CHECK(bytes == (format == KvFormat::kF32 ? wide : wide / 2));
        if (spec.stacks.size() > 1) continue;
        logits_in_chunks(engine, long_prompt(directory, 64), 32);
        CHECK(engine.memory().peak() == engine.memory().used());
      }
    }
  }
}

TEST_CASE("kv pages: a window's answers have the bits of one pass over the whole prompt, whatever pages were dropped") {
  for (const bool all_layers : {false, true}) {
    CAPTURE(all_layers);
    constexpr size_t kTokens = 210;
    const auto windowed = WindowedPack::open(all_layers, kTokens);
    for (const DeviceKind device : testing::devices()) {
      CAPTURE(testing::device_name(device));
      for (const KvFormat format : kFormats) {
        BatchLimits limits{kTokens, 512, 2};
        limits.device = device;
        limits.kv = format;
        // Within one pass windows only mask.
        Engine whole(testing::options_for(windowed->pack.path(), limits, 1.0));
        const std::vector<float> expected = logits_in_chunks(whole, windowed->prompt, kTokens);
        const std::vector<size_t> chunks =
            testing::emulated(device) ? std::vector<size_t>{40} : std::vector<size_t>{40, 16, 7, 1};
        limits.max_batch_tokens = 40;
        for (const double share : {1.0, 0.0}) {
          Engine engine(testing::options_for(windowed->pack.path(), limits, share));
          const KvGroup& group = engine.cache().groups()[0];
          REQUIRE(engine.cache().groups().size() == windowed->groups);
          CHECK(group.window == windowed->window);
          CHECK(group.pages < 8);
          for (const size_t chunk : chunks) {
            CAPTURE(chunk);
            CHECK(same_bits(logits_in_chunks(engine, windowed->prompt, chunk), expected));
          }
          CHECK(engine.cache().free_pages() == engine.cache().pages());
        }
      }
    }
  }
}

/// Runs `count` tokens of a sequence from `begin` on, and returns all their logits.
std::vector<float> extend(Engine& engine, int32_t id, int32_t parent, const std::vector<int32_t>& prompt, size_t begin,
                          size_t count) {
  const std::vector<int32_t> ids{id}, parents{parent}, offsets{0, static_cast<int32_t>(count)};
  const std::vector<int32_t> tokens(prompt.begin() + static_cast<long>(begin),
                                    prompt.begin() + static_cast<long>(begin + count));
  std::vector<int32_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  Batch batch = pass_of(0, ids, offsets, tokens, parents);
  batch.logit_rows = rows;
  return run(engine, batch).logits;
}

TEST_CASE("kv pages: forks of a sequence that drops pages have its bits, before and after it ends") {
  for (const bool all_layers : {false, true}) {
    CAPTURE(all_layers);
    constexpr size_t kTokens = 150;
    const auto windowed = WindowedPack::open(all_layers, kTokens);
    for (const DeviceKind device : testing::devices()) {
      CAPTURE(testing::device_name(device));
      BatchLimits limits{kTokens, 1024, 2};
      limits.device = device;
      limits.kv_windows = 4;
      Engine engine(testing::options_for(windowed->pack.path(), limits, 1.0));
      const std::vector<int32_t>& prompt = windowed->prompt;
      const std::vector<float> expected = logits_in_chunks(engine, prompt, kTokens);
      const auto check = [&](const std::vector<float>& found, size_t begin) {
        CHECK(std::equal(found.begin(), found.end(), expected.begin() + static_cast<long>(begin * engine.spec().vocab)));
      };
      check(extend(engine, 1, kNoParent, prompt, 0, 57), 0);
      check(extend(engine, 2, 1, prompt, 57, 1), 57);    // copies the page it shares
      check(extend(engine, 1, kNoParent, prompt, 57, 43), 57);  // drops what its fork still sees
      check(extend(engine, 3, 2, prompt, 58, 10), 58);
      check(extend(engine, 2, kNoParent, prompt, 58, 30), 58);
      const std::vector<int32_t> first{1}, rest{2, 3};
      engine.release_sequences(first);
      engine.check_integrity();
      check(extend(engine, 3, kNoParent, prompt, 68, 82), 68);
      check(extend(engine, 2, kNoParent, prompt, 88, 62), 88);
      engine.release_sequences(rest);
      engine.check_integrity();
      CHECK(engine.cache().free_pages() == engine.cache().pages());
    }
  }
}

TEST_CASE("kv pages: a pass that finds too few pages behind windows is refused and changes nothing") {
  const auto windowed = WindowedPack::open(false, 100);
  Engine engine(testing::options_for(windowed->pack.path(), {40, 512, 1}, 0.0));
  const auto before = extend(engine, 1, kNoParent, windowed->prompt, 0, 40);
  extend(engine, 2, kNoParent, windowed->prompt, 0, 20);
  CHECK_THROWS_WITH(extend(engine, 1, kNoParent, windowed->prompt, 40, 40),
                    "the KV cache of layers with a window of 16 tokens, of 5 pages, has 1 free, 2 are needed");
  engine.check_integrity();
  const std::vector<int32_t> second{2};
  engine.release_sequences(second);
  extend(engine, 1, kNoParent, windowed->prompt, 40, 40);
}

size_t most_likely(const float* logits, size_t vocab) {
  return static_cast<size_t>(std::max_element(logits, logits + vocab) - logits);
}

TEST_CASE("kv pages: bf16 changes logits a little, and no bits by budget, chunks or other sequences") {
  for (const char* name : testing::kDecoderFixtures) {
    const std::string directory = fixture(name);
    CAPTURE(name);
    TempDir pack;
    testing::write_pack(directory, pack.path());
    for (const DeviceKind device : testing::devices()) {
      CAPTURE(testing::device_name(device));
      const std::vector<int32_t> prompt = long_prompt(directory, testing::emulated(device) ? 40 : 130);
      BatchLimits limits{160, 512, 2};
      limits.device = device;
      Engine exact(testing::options_for(pack.path(), limits, 1.0));
      const std::vector<float> expected = logits_in_chunks(exact, prompt, prompt.size());
      limits.kv = KvFormat::kBf16;
      std::vector<float> resident;
      for (const double share : testing::shares_on(device)) {
        Engine engine(testing::options_for(pack.path(), limits, share));
        const std::vector<float> found = logits_in_chunks(engine, prompt, prompt.size());
        if (share != 1.0) {
          CHECK(same_bits(found, resident));
          continue;
        }
        resident = found;
        CHECK(same_bits(logits_in_chunks(engine, prompt, 7), found));
        extend(engine, 9, kNoParent, prompt, 3, 20);
        const std::vector<int32_t> ids{9, 1}, offsets{0, 1, 31}, rows{30};
        std::vector<int32_t> tokens{prompt[5]};
        tokens.insert(tokens.end(), prompt.begin(), prompt.begin() + 30);
        Batch beside = pass_of(0, ids, offsets, tokens);
        beside.logit_rows = rows;
        const std::vector<float> last = run(engine, beside).logits;
        const size_t vocab = engine.spec().vocab;
        CHECK(std::equal(last.begin(), last.end(), found.begin() + static_cast<long>(29 * vocab)));
        size_t agree = 0;
        std::vector<double> errors;  // of each row
        for (size_t row = 0; row < prompt.size(); ++row) {
          const float *a = &expected[row * vocab], *b = &found[row * vocab];
          agree += most_likely(a, vocab) == most_likely(b, vocab);
          errors.push_back(testing::relative_error({b, b + vocab}, {a, a + vocab}));
        }
        std::sort(errors.begin(), errors.end());
        MESSAGE(std::string(name) << ", " << std::string(testing::device_name(device)) << ", KV in bf16: error of a row "
                                  << errors[errors.size() / 2] << " (median), " << errors.back()
                                  << " (largest), most likely token the same for " << agree << " of "
                                  << prompt.size());
        CHECK(errors.back() > 0);
        // Routers of random weights have near ties, which fall otherwise for some tokens; their rows differ more.
        CHECK(errors[errors.size() / 2] < 0.02);
        CHECK(agree * 100 >= prompt.size() * 95);
      }
    }
  }
}

}  // namespace
}  // namespace sida
