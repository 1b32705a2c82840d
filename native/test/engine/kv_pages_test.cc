// What engines keep of keys and values: windows drop pages, bf16 takes half of the bytes, and the plan knows both.
#include "support/oracle_cases.h"

namespace {

constexpr KvFormat kFormats[] = {KvFormat::kF32, KvFormat::kBf16};

/// `count` tokens, those of a fixture's longest case again and again.
std::vector<int32_t> long_prompt(const PackedFixture& f, size_t count) {
  std::vector<int32_t> prompt;
  for (size_t i = 0; i < count; ++i) prompt.push_back(f.list[3].tokens[i % f.list[3].tokens.size()]);
  return prompt;
}

/// The pack of a fixture whose config has these values.
PackedFixture with_config(const std::string& name, const std::vector<std::pair<std::string, int>>& values) {
  return PackedFixture(name, [&](const std::string& from, const std::string& to) {
    const TempDir copy;
    std::filesystem::copy(from, copy.path(), std::filesystem::copy_options::recursive);
    const std::string path = copy.path() + "/config.json";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::string config = read_text_file(path);
    for (const auto& [key, value] : values) {
      const std::string quoted = '"' + key + '"';
      const size_t field = config.find(quoted);
      if (field != std::string::npos) config.erase(field, config.find_first_of(",}", field) + 1 - field);
      config.insert(config.find('{') + 1, quoted + ": " + std::to_string(value) + ", ");
    }
    std::ofstream(path) << config;
    write_pack(copy.path(), to);
  });
}

/// Packs of models whose windows are much shorter than their prompts: in every other layer, and in all.
PackedFixture windowed(bool all_layers) {
  if (!all_layers) return PackedFixture("gpt-oss-tiny");
  return with_config("mixtral-tiny", {{"sliding_window", 21}});
}

/// Packs of models with heads of 32 columns, without a window and with one.
PackedFixture wide_heads(bool has_window) {
  if (!has_window) return with_config("olmoe-tiny", {{"num_attention_heads", 2}, {"num_key_value_heads", 2}});
  return with_config("mixtral-tiny", {{"num_attention_heads", 2}, {"num_key_value_heads", 1}, {"sliding_window", 21}});
}

TEST_CASE("kv pages: the engine takes the bytes that the plan says, for every family, type and device") {
  std::vector<std::string> names{"switch-tiny", "nllb-moe-tiny"};
  names.insert(names.end(), std::begin(kDecoderFixtures), std::end(kDecoderFixtures));
  for (const std::string& name : names) {
    const PackedFixture f(name);
    for (const auto& [device, format] : grid(devices(), kFormats)) {
      CASE(name, device_name(device), format);
      BatchLimits limits = limits_on(device, {32, 480, 2});
      limits.kv = format;
      Engine engine = f.open(limits, 0.5);
      const MemoryPlan& plan = engine.plan();
      CHECK(engine.memory().used() == plan.fixed() + engine.store().slots() * plan.slot);
      const ModelSpec& spec = engine.spec();
      // All heads of these fixtures have 16 columns or a multiple.
      uint64_t elements = 0, states = 0;
      for (const LayerSpec& layer : spec.last().layers) {
        if (layer.delta) {
          states += limits.kv_states * ((layer.delta->state_floats() + 15) / 16 * 16) * sizeof(float);
          continue;
        }
        const AttentionSpec& attention = layer.self;
        const bool has_window = spec.stacks.size() == 1 && attention.window.has_value();
        // A window of 16 leaves 15 keys, which lie in 2 pages, and 32 new tokens take 2.
        const size_t tokens = has_window ? 4 * kPageTokens : 480;
        elements += tokens * (attention.latent ? (attention.latent->row() + 15) / 16 * 16 : 2 * attention.kv_width());
      }
      CHECK(plan.kv_cache == engine.memory().taken(elements * (format == KvFormat::kF32 ? 4 : 2) + states));
      if (spec.stacks.size() > 1) continue;
      logits_in_chunks(engine, long_prompt(f, 64), 32);
      CHECK(engine.memory().peak() == engine.memory().used());
    }
  }
}

TEST_CASE("kv pages: a window's answers have the bits of one pass over the whole prompt, whatever pages were dropped") {
  constexpr size_t kTokens = 210;
  for (const bool all_layers : kBoth) {
    const PackedFixture f = windowed(all_layers);
    const std::vector<int32_t> prompt = long_prompt(f, kTokens);
    for (const auto& [device, format] : grid(devices(), kFormats)) {
      BatchLimits limits = limits_on(device, {kTokens, 512, 2});
      limits.kv = format;
      // Within one pass windows only mask.
      Engine whole = f.open(limits);
      const std::vector<float> expected = logits_in_chunks(whole, prompt, kTokens);
      limits.max_batch_tokens = 40;
      for (const double share : {1.0, 0.0}) {
        Engine engine = f.open(limits, share);
        const KvGroup& group = engine.cache().groups()[0];
        REQUIRE(engine.cache().groups().size() == (all_layers ? 1 : 2));
        CHECK(group.window == (all_layers ? 21 : 16));
        CHECK(group.pages < 8);
        for (const size_t chunk : emulated(device) ? Sizes{40} : Sizes{40, 16, 7, 1}) {
          CASE(all_layers, device_name(device), format, share, chunk);
          CHECK(same_bits(logits_in_chunks(engine, prompt, chunk), expected));
        }
        CHECK(engine.cache().free_pages() == engine.cache().pages());
      }
    }
  }
}

TEST_CASE("kv pages: forks of a sequence that drops pages have its bits, before and after it ends") {
  constexpr size_t kTokens = 150;
  for (const auto& [all_layers, device] : grid(kBoth, devices())) {
    CASE(all_layers, device_name(device));
    const PackedFixture f = windowed(all_layers);
    const std::vector<int32_t> prompt = long_prompt(f, kTokens);
    BatchLimits limits = limits_on(device, {kTokens, 1024, 2});
    limits.kv_windows = 4;
    Engine engine = f.open(limits);
    const std::vector<float> expected = logits_in_chunks(engine, prompt, kTokens);
    const auto check = [&](int32_t id, int32_t parent, size_t begin, size_t count) {
      const size_t vocab = engine.spec().vocab;
      CHECK(feed(engine, id, part_of(prompt, begin, count), parent).logits ==
            part_of(expected, begin * vocab, count * vocab));
    };
    check(1, kNoParent, 0, 57);
    check(2, 1, 57, 1);           // copies the page it shares
    check(1, kNoParent, 57, 43);  // drops what its fork still sees
    check(3, 2, 58, 10);
    check(2, kNoParent, 58, 30);
    release(engine, {1});
    engine.check_integrity();
    check(3, kNoParent, 68, 82);
    check(2, kNoParent, 88, 62);
    release(engine, {2, 3});
    engine.check_integrity();
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  }
}

TEST_CASE("kv pages: a pass that finds too few pages behind windows is refused and changes nothing") {
  const PackedFixture f = windowed(false);
  const std::vector<int32_t> prompt = long_prompt(f, 80), first = part_of(prompt, 0, 40),
                             rest = part_of(prompt, 40, 40);
  Engine engine = f.open({40, 512, 1}, 0);
  feed(engine, 1, first);
  feed(engine, 2, part_of(prompt, 0, 20));
  CHECK_THROWS_WITH(feed(engine, 1, rest),
                    "the KV cache of layers with a window of 16 tokens, of 5 pages, has 1 free, 2 are needed");
  engine.check_integrity();
  release(engine, {2});
  feed(engine, 1, rest);
}

size_t most_likely(const float* logits, size_t vocab) {
  return static_cast<size_t>(std::max_element(logits, logits + vocab) - logits);
}

/// That a narrow type changes logits a little, and no bits by budget, chunks or other sequences.
void check_narrow(const PackedFixture& f, DeviceKind device, KvFormat format, double median) {
  const std::vector<int32_t> prompt = long_prompt(f, emulated(device) ? 40 : 130);
  BatchLimits limits = limits_on(device, {160, 512, 2});
  Engine exact = f.open(limits);
  const std::vector<float> expected = logits_in_chunks(exact, prompt, prompt.size());
  limits.kv = format;
  std::vector<float> resident;
  for (const double share : shares_on(device)) {
    Engine engine = f.open(limits, share);
    const std::vector<float> found = logits_in_chunks(engine, prompt, prompt.size());
    if (share != 1.0) {
      CHECK(same_bits(found, resident));
      continue;
    }
    resident = found;
    CHECK(same_bits(logits_in_chunks(engine, prompt, 7), found));
    feed(engine, 9, part_of(prompt, 3, 20));
    const std::vector<int32_t> ids{9, 1}, offsets{0, 1, 31}, rows{30};
    std::vector<int32_t> tokens = part_of(prompt, 0, 30);
    tokens.insert(tokens.begin(), prompt[5]);
    Batch beside = pass_of(0, ids, offsets, tokens);
    beside.logit_rows = rows;
    const size_t vocab = engine.spec().vocab;
    CHECK(run(engine, beside).logits == part_of(found, 29 * vocab, vocab));
    size_t agree = 0;
    std::vector<double> errors;  // of each row
    for (size_t row = 0; row < prompt.size(); ++row) {
      const auto wanted = part_of(expected, row * vocab, vocab), own = part_of(found, row * vocab, vocab);
      agree += most_likely(wanted.data(), vocab) == most_likely(own.data(), vocab);
      errors.push_back(relative_error(own, wanted));
    }
    std::ranges::sort(errors);
    CHECK(errors.back() > 0);
    // Routers of random weights have near ties, which fall otherwise for some tokens; their rows differ more.
    CHECK(errors[errors.size() / 2] < median);
    CHECK(agree * 100 >= prompt.size() * 95);
  }
}

TEST_CASE("kv pages: bf16 changes logits a little, and no bits by budget, chunks or other sequences") {
  for (const auto& [name, device] : grid(kDecoderFixtures, devices())) {
    CASE(name, device_name(device));
    check_narrow(PackedFixture(name), device, KvFormat::kBf16, 0.02);
  }
}

TEST_CASE("kv pages: q8_0 changes logits a little, and no bits by budget, chunks or other sequences") {
  for (const bool has_window : kBoth) {
    CASE(has_window);
    const PackedFixture f = wide_heads(has_window);
    check_narrow(f, DeviceKind::kCpu, KvFormat::kQ8_0, 0.04);
    BatchLimits limits = limits_on(DeviceKind::kCpu, {160, 512, 2});
    const uint64_t wide = f.open(limits).plan().kv_cache;
    limits.kv = KvFormat::kQ8_0;
    const uint64_t narrow = f.open(limits).plan().kv_cache;
    // In whole 4 KiB pages.
    CHECK(narrow == (wide * 34 / 128 + 4095) / 4096 * 4096);
  }
}

TEST_CASE("kv pages: q8_0 is refused where heads are not whole blocks, and on the cuda device") {
  BatchLimits limits;
  limits.kv = KvFormat::kQ8_0;
  const auto refusal = [&](const std::string& name) {
    const Engine engine = PackedFixture(name).open();
    plan_memory(engine.spec(), kF32Format, kF32Format, limits);
  };
  CHECK_THROWS_WITH(refusal("gpt-oss-tiny"),
                    "a KV cache of q8_0 has blocks of 32 columns, which heads of 16 columns are "
                    "no multiple of; choose bf16");
  CHECK_THROWS_WITH(
      refusal("deepseek-v3-tiny"),
      "a KV cache of q8_0 has blocks of 32 columns, which heads of 8 columns are no multiple of; choose bf16");
  limits.device = DeviceKind::kCuda;
  CHECK_THROWS_WITH(refusal("olmoe-tiny"),
                    "a KV cache of q8_0 needs the cpu device; the cuda device takes f32 and bf16");
}

}  // namespace
