// Metadata of Gemma 4, whose layers have windows, heads and positions by their type.
#include <cmath>
#include <map>

#include "support/gguf_models.h"

namespace {

template <class T>
std::string list_of(uint32_t type, const std::vector<T>& values) {
  std::string all = bytes_of(type) + bytes_of<uint64_t>(values.size());
  for (const T value : values) all += bytes_of(value);
  return all;
}

/// What a test changes in the metadata of a Gemma 4 with two layers. The first one has a window.
struct Gemma {
  std::vector<uint8_t> windowed{1, 0};
  std::vector<int32_t> kv_heads{2, 1};
  std::vector<float> factors{1, 1, 1e30f, 1e30f};
  bool own_values = false;
  std::map<std::string, uint32_t> numbers{{"attention.key_length", 8},     {"attention.value_length", 8},
                                          {"attention.key_length_swa", 6}, {"attention.value_length_swa", 6},
                                          {"rope.dimension_count", 8},     {"rope.dimension_count_swa", 6},
                                          {"feed_forward_length", 10},     {"attention.sliding_window", 5}};

  GgufBuilder file() const {
    GgufBuilder file;
    file.text("general.architecture", "gemma4").f32("gemma4.attention.layer_norm_rms_epsilon", 1e-6f);
    file.u32("gemma4.block_count", 2).u32("gemma4.context_length", 64).u32("gemma4.embedding_length", kWidth);
    file.u32("gemma4.attention.head_count", 2).u32("gemma4.expert_count", kExperts);
    file.u32("gemma4.expert_used_count", 1).u32("gemma4.expert_feed_forward_length", kHidden);
    file.f32("gemma4.rope.freq_base", 1e6f).f32("gemma4.rope.freq_base_swa", 1e4f);
    file.f32("gemma4.final_logit_softcapping", 30);
    file.raw("gemma4.attention.head_count_kv", 9, list_of(5, kv_heads));
    file.raw("gemma4.attention.sliding_window_pattern", 9, list_of(7, windowed));
    for (const auto& [key, value] : numbers) file.u32("gemma4." + key, value);
    file.zeros("token_embd.weight", {kWidth, kVocab}).zeros("rope_freqs.weight", {factors.size()});
    file.tensors.back().data = bytes_of_all(factors);
    if (own_values) file.zeros("blk.1.attn_v.weight", {kWidth, 8});
    return file;
  }
  static std::string bytes_of_all(const std::vector<float>& values) {
    std::string all;
    for (const float value : values) all += bytes_of(value);
    return all;
  }
};

ModelSpec spec_of(const Gemma& gemma) {
  const TempDir directory;
  write_file(directory.path() + "/m.gguf", gemma.file().build());
  return Checkpoint::open(directory.path() + "/m.gguf").spec();
}

TEST_CASE("gguf models: Gemma 4's layers have windows, heads and positions by their type") {
  const ModelSpec spec = spec_of({});
  CHECK(spec.family == "gemma4");
  CHECK(spec.head.cap == 30.0f);
  const AttentionSpec &windowed = spec.last().layers[0].self, &full = spec.last().layers[1].self;
  CHECK(windowed.window == 5u);
  CHECK(windowed.head_dim == 6);
  CHECK(windowed.kv_heads == 2);
  CHECK(windowed.values == Values::kNormed);
  CHECK_FALSE(full.window);
  CHECK(full.head_dim == 8);
  CHECK(full.kv_heads == 1);
  CHECK(full.values == Values::kNormedKeys);
  const Rope& rope = spec.last().rope(full.rope);
  CHECK(rope.inverse_frequencies[1] == doctest::Approx(std::pow(1e6, -0.25)));
  CHECK(rope.inverse_frequencies[2] == 0);
  const Gemma own{.kv_heads = {2, 2}, .own_values = true};
  CHECK(spec_of(own).last().layers[1].self.values == Values::kNormed);
  const Gemma full_alone{.windowed = {0, 0}, .kv_heads = {1, 1}};
  CHECK_FALSE(spec_of(full_alone).last().layers[0].self.window);
}

TEST_CASE("gguf models: what no config of Gemma 4 can say is refused by its key") {
  const auto refused = [](const Gemma& gemma, const std::vector<std::string>& parts) {
    check_error([&] { spec_of(gemma); }, parts);
  };
  const auto with = [](const char* key, uint32_t value) {
    Gemma gemma;
    gemma.numbers[key] = value;
    return gemma;
  };
  refused({.windowed = {0, 1}}, {"gemma4.attention.sliding_window_pattern", "a last layer without a window"});
  refused({.windowed = {1}}, {"gemma4.attention.sliding_window_pattern", "2 bools", "found 1"});
  refused({.windowed = {0, 0}}, {"gemma4.attention.head_count_kv", "for layer 1"});
  refused({.kv_heads = {2}}, {"gemma4.attention.head_count_kv", "for layer 1"});
  refused({.own_values = true}, {"gemma4.attention.head_count_kv", "2 for all layers", "found 1"});
  refused({.factors = {1, 1, 1e30f}}, {"gemma4.rope.dimension_count", "rope_freqs.weight", "4 numbers", "found 3"});
  refused({.factors = {1, 2, 1e30f, 1e30f}}, {"gemma4.rope.dimension_count", "each 1 or 1e30"});
  refused(with("attention.value_length", 6), {"gemma4.attention.value_length", "expected 8", "found 6"});
  refused(with("rope.dimension_count_swa", 4), {"gemma4.rope.dimension_count_swa", "expected 6", "found 4"});
  refused(with("attention.shared_kv_layers", 1), {"gemma4.attention.shared_kv_layers", "found 1"});
  refused(with("embedding_length_per_layer_input", 4), {"gemma4.embedding_length_per_layer_input", "found 4"});
  const auto changed = [](const std::function<void(GgufBuilder&)>& change, const std::vector<std::string>& parts) {
    GgufBuilder file = Gemma{}.file();
    change(file);
    check_refused(file, parts);
  };
  changed(
      [](GgufBuilder& f) {
        f.tensors[1].type = 1;
        f.tensors[1].data.resize(4 * 2);
      },
      {"gemma4.rope.dimension_count", "4 numbers in F32", "found none in F32"});
  changed([](GgufBuilder& f) { f.text("gemma4.rope.scaling.type", "yarn"); }, {"gemma4.rope.scaling.type", "\"yarn\""});
  changed([](GgufBuilder& f) { f.f32("gemma4.rope.scaling.factor", 4); }, {"gemma4.rope.scaling.factor", "found 4"});
  changed([](GgufBuilder&) {}, {"blk.0.attn_norm.weight", "missing tensor"});
}

}  // namespace
