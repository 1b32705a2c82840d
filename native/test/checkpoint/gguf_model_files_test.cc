// Models in GGUF files: configs from metadata, split files, and what is refused by name.
#include "checkpoint/gguf_model_files.h"

#include "support/gguf_models.h"

namespace {

/// A model of one layer whose metadata has these values under "head_count" and the key of the experts' inner width.
GgufBuilder model(const std::string& architecture, const std::string& width_key, uint32_t heads = 2) {
  GgufBuilder file;
  file.text("general.architecture", architecture);
  const std::string prefix = architecture + ".";
  file.u32(prefix + "block_count", 1).u32(prefix + "context_length", 64);
  file.u32(prefix + "embedding_length", kWidth).u32(prefix + width_key, kHidden);
  file.u32(prefix + "attention.head_count", heads).f32(prefix + "attention.layer_norm_rms_epsilon", 1e-5f);
  file.u32(prefix + "expert_count", kExperts).u32(prefix + "expert_used_count", 1);
  file.u32("tokenizer.ggml.eos_token_id", 2);
  file.zeros("token_embd.weight", {kWidth, kVocab}).zeros("output.weight", {kWidth, kVocab});
  file.zeros("output_norm.weight", {kWidth});
  const auto add = [&](const std::string& name, const std::vector<uint64_t>& shape) {
    file.zeros("blk.0." + name + ".weight", shape);
  };
  for (const char* name : {"attn_norm", "ffn_norm"}) add(name, {kWidth});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) add(name, {kWidth, kWidth});
  add("ffn_gate_inp", {kWidth, kExperts});
  for (const char* name : {"ffn_gate_exps", "ffn_up_exps"}) add(name, {kWidth, kHidden, kExperts});
  add("ffn_down_exps", {kHidden, kWidth, kExperts});
  return file;
}

GgufBuilder olmoe(const std::string& width_key = "feed_forward_length", uint32_t heads = 2) {
  GgufBuilder file = model("olmoe", width_key, heads);
  return file.zeros("blk.0.attn_q_norm.weight", {kWidth}).zeros("blk.0.attn_k_norm.weight", {kWidth});
}

/// A model of OLMoE that `change` changed.
void check_refused(const std::function<void(GgufBuilder&)>& change, const std::vector<std::string>& parts) {
  GgufBuilder file = olmoe();
  change(file);
  check_refused(file, parts);
}

TEST_CASE("gguf models: sizes, tokens and tied heads follow from metadata and tensors") {
  const Checkpoint whole = open(olmoe());
  CHECK(whole.spec().family == "olmoe");
  CHECK(whole.spec().vocab == kVocab);
  CHECK_FALSE(whole.spec().head.tied);
  CHECK(whole.spec().tokens.end == std::vector<int32_t>{2});
  GgufBuilder tied = olmoe();
  drop(tied, "output.weight");
  CHECK(open(tied).spec().head.tied);
}

TEST_CASE("gguf models: experts may have a width of their own, or that of the feed-forward network") {
  for (const char* key : {"feed_forward_length", "expert_feed_forward_length"}) {
    CASE(key);
    for (const Checkpoint& checkpoint : {open(olmoe(key)), open(model("llama", key))}) {
      CHECK(checkpoint.spec().last().layers[0].moe()->expert.width == kHidden);
    }
  }
  GgufBuilder both = model("llama", "expert_feed_forward_length");
  CHECK(open(both.u32("llama.feed_forward_length", 7)).spec().last().layers[0].moe()->expert.width == kHidden);
}

TEST_CASE("gguf models: routers without a kind have sigmoids where they have a correction") {
  for (const auto& [kind, correction, family] : {std::tuple{0, true, "deepseek_v3"},
                                                 {0, false, "deepseek_v2"},
                                                 {1, true, "deepseek_v2"},
                                                 {2, false, "deepseek_v3"}}) {
    CASE(kind, correction);
    GgufBuilder file = model("deepseek2", "feed_forward_length");
    for (const auto& [key, value] : {std::pair{"attention.q_lora_rank", 3},
                                     {"attention.kv_lora_rank", 5},
                                     {"rope.dimension_count", 2},
                                     {"attention.key_length", 6},
                                     {"attention.value_length", 4},
                                     {"expert_feed_forward_length", 4}}) {
      file.u32(std::string("deepseek2.") + key, static_cast<uint32_t>(value));
    }
    if (kind > 0) file.u32("deepseek2.expert_gating_func", static_cast<uint32_t>(kind));
    if (correction) file.zeros("blk.0.exp_probs_b.bias", {kExperts});
    const TempDir directory;
    write_file(directory.path() + "/m.gguf", file.build());
    CHECK(Checkpoint::open(directory.path() + "/m.gguf").spec().family == family);
  }
}

TEST_CASE("gguf models: experts without a key have the width of their tensors") {
  GgufBuilder file = model("llama", "other_length");
  CHECK(open(file.u32("llama.feed_forward_length", 7)).spec().last().layers[0].moe()->expert.width == kHidden);
}

TEST_CASE("gguf models: the width of a shared expert is that of its tensor, if that is a matrix") {
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{}, {kWidth}, {1, 1, 1}}) {
    GgufBuilder file = model("qwen2moe", "expert_feed_forward_length");
    file.u32("qwen2moe.feed_forward_length", 7).zeros("blk.0.ffn_gate_shexp.weight", shape);
    check_refused(file, {"metadata \"qwen2moe.expert_shared_feed_forward_length\"", "found none"});
  }
}

TEST_CASE("gguf models: tokens end a generation by their keys and by texts that models use for it") {
  GgufBuilder file = olmoe();
  file.u32("tokenizer.ggml.eot_token_id", 4);
  file.texts("tokenizer.ggml.tokens", {"a", "<|im_end|>", "b", "<|end|>", "c", "d"});
  CHECK(open(file).spec().tokens.end == std::vector<int32_t>{2, 4, 1, 3});
  GgufBuilder messages = olmoe();
  messages.texts("tokenizer.ggml.tokens", {"<|end|>", "<|return|>", "b", "c", "d", "e"});
  CHECK(open(messages).spec().tokens.end == std::vector<int32_t>{2, 1});
}

TEST_CASE("gguf models: -1 is no token, with and without a sign") {
  GgufBuilder file = olmoe();
  file.u32("tokenizer.ggml.padding_token_id", 0xffffffffu).u32("tokenizer.ggml.eot_token_id", 0xffffffffu);
  const Checkpoint checkpoint = open(file);
  CHECK(!checkpoint.spec().tokens.pad);
  CHECK(checkpoint.spec().tokens.end == open(olmoe()).spec().tokens.end);
}

TEST_CASE("gguf models: positions without a base have that of llama.cpp") {
  const Checkpoint checkpoint = open(model("llama", "expert_feed_forward_length"));
  const Rope& rope = std::get<Rope>(checkpoint.spec().last().positions);
  REQUIRE(rope.inverse_frequencies.size() == 2);
  CHECK(rope.inverse_frequencies[1] == doctest::Approx(0.01));
}

TEST_CASE("gguf models: what is missing, wrong or not supported is refused by its file and key") {
  using File = GgufBuilder&;
  const std::string heads = error_of([] { open(olmoe("feed_forward_length", 3)); });
  check_has(heads, {"/m.gguf: metadata \"olmoe.attention.head_count\": expected heads", "found 3"});
  CHECK(heads.find("config.json") == std::string::npos);
  check_refused(GgufBuilder().u32("k", 1), {"\"general.architecture\"", "none"});
  check_refused(GgufBuilder().text("general.architecture", "mamba"), {"\"olmoe\" or \"llama\"", "\"mamba\""});
  check_refused(GgufBuilder().text("general.architecture", "olmoe"), {"token_embd.weight"});
  check_refused([](File f) { f.u32("tokenizer.ggml.eot_token_id", kVocab); },
                {"/m.gguf: an end token of the metadata: expected", "0 to 5", "found 6"});
  check_refused([](File f) { f.u32("tokenizer.ggml.padding_token_id", kVocab); },
                {"metadata \"tokenizer.ggml.padding_token_id\"", "0 to 5", "found 6"});
  check_refused([](File f) { f.f32("olmoe.rope.freq_base", 0.5f); },
                {"metadata \"olmoe.rope.freq_base\"", "found 0.5"});
  check_refused([](File f) { f.zeros("blk.7.attn_q.weight", {2}); }, {"not of the model in the metadata"});
  check_refused([](File f) { f.text("olmoe.rope.scaling.type", "longrope"); },
                {"olmoe.rope.scaling.type", "\"longrope\""});
  check_refused([](File f) { f.u32("olmoe.rope.dimension_count", 2); }, {"olmoe.rope.dimension_count", "found 2"});
  check_refused([](File f) { f.u32("olmoe.attention.value_length", 2); }, {"olmoe.attention.value_length"});
  check_refused([](File f) { f.text("olmoe.attention.head_count_kv", "2"); },
                {"olmoe.attention.head_count_kv", "a whole number", "\"2\""});
  check_refused([](File f) { f.zeros("rope_freqs.weight", {2}); }, {"rope_freqs.weight", "not supported"});
  check_refused([](File f) { f.zeros("blk.0.other.weight", {2}); }, {"blk.0.other.weight", "not of the model"});
  check_refused([](File f) { f.zeros("output.bias", {kVocab}); }, {"output.bias", "not of the model"});
  check_refused([](File f) { drop(f, "blk.0.attn_q.weight"); }, {"blk.0.attn_q.weight", "missing tensor"});
  check_refused([](File f) { f.tensors[0].dimensions = {4, 2 * kVocab}; }, {"token_embd.weight", "shape"});
}

TEST_CASE("gguf models: what metadata of a delta rule lacks, or asks for and is not supported, is named") {
  struct Row {
    std::function<void(GgufBuilder&)> add;
    std::vector<std::string> parts;
    std::map<std::string, uint32_t> numbers = {};  ///< of the delta rule
  };
  const auto inner = [](GgufBuilder& file) -> GgufBuilder& { return file.u32("qwen3next.ssm.inner_size", 4); };
  const Row rows[] = {
      {[](GgufBuilder&) {}, {"qwen3next.ssm.inner_size", "none"}},
      {[](GgufBuilder& file) { file.u32("qwen3next.ssm.inner_size", 5); },
       {"qwen3next.ssm.inner_size", "a multiple of", "found 5"}},
      {[&](GgufBuilder& file) { inner(file).u32("qwen3next.full_attention_interval", 0); },
       {"qwen3next.full_attention_interval", "one or more", "found 0"}},
      {[&](GgufBuilder& file) { inner(file).f32("qwen3next.expert_weights_scale", 2.5f); },
       {"qwen3next.expert_weights_scale", "expected 1", "found 2.5"}},
      {[&](GgufBuilder& file) { inner(file); }, {"layer_types", "a layer of \"full_attention\""}},
      {[&](GgufBuilder& file) { inner(file).u32("qwen3next.full_attention_interval", 1); },
       {"blk.0.attn_q.weight", "shape"}},
      {[&](GgufBuilder& file) { file.u32("qwen3next.ssm.inner_size", 2050); },
       {"qwen3next.ssm.inner_size", "from 1 to 2048", "found 2050"}},
      {inner, {"qwen3next.ssm.conv_kernel", "from 1 to 16", "found 17"}, {{"conv_kernel", 17}}},
      {inner, {"qwen3next.ssm.state_size", "from 1 to 1024", "found 0"}, {{"state_size", 0}}},
      {inner, {"qwen3next.ssm.group_count", "from 1 to 1024", "found 1025"}, {{"group_count", 1025}}},
      {inner, {"qwen3next.ssm.time_step_rank", "from 1 to 1024", "found 0"}, {{"time_step_rank", 0}}},
  };
  for (const Row& row : rows) {
    GgufBuilder file = model("qwen3next", "expert_feed_forward_length");
    file.u32("qwen3next.expert_shared_feed_forward_length", 4);
    std::map<std::string, uint32_t> numbers = row.numbers;
    numbers.merge(std::map<std::string, uint32_t>{
        {"conv_kernel", 4}, {"state_size", 2}, {"group_count", 1}, {"time_step_rank", 2}});
    for (const auto& [key, value] : numbers) file.u32("qwen3next.ssm." + key, value);
    row.add(file);
    check_refused(file, row.parts);
  }
}

TEST_CASE("gguf models: scaled positions that no config can say are refused by their keys") {
  const auto scaled = [](const char* type, const char* key, float value, bool with_factor = false) {
    GgufBuilder file = olmoe();
    file.text("olmoe.rope.scaling.type", type).f32(std::string("olmoe.rope.") + key, value);
    return with_factor ? file.f32("olmoe.rope.scaling.factor", 4) : file;
  };
  check_refused(scaled("yarn", "freq_base", 500), {"metadata \"olmoe.rope.scaling.factor\"", "YaRN", "found none"});
  check_refused(scaled("yarn", "scaling.factor", 0), {"olmoe.rope.scaling.factor", "found 0"});
  check_refused(scaled("yarn", "scaling.factor", 0.5f), {"metadata \"olmoe.rope.scaling.factor\"", "found 0.5"});
  const char *attention = "scaling.attn_factor", *ramp = "scaling.yarn_ext_factor";
  for (const char* type : {"none", "linear", "yarn"}) {
    CASE(type);
    check_refused(scaled(type, attention, 0.5f, true),
                  {"metadata \"olmoe.rope.scaling.attn_factor\"", "expected 1, found 0.5", "not supported"});
    check_refused(scaled(type, ramp, 0.25f, true),
                  {"metadata \"olmoe.rope.scaling.yarn_ext_factor\"", "found 0.25", "not supported"});
    CHECK_NOTHROW(open(scaled(type, attention, 1, true)));
    CHECK_NOTHROW(open(scaled(type, ramp, type == std::string("yarn") ? 1 : 0, true)));
    CHECK_NOTHROW(open(scaled(type, ramp, -1, true)));
  }
}

TEST_CASE("gguf models: positions are scaled as the metadata says") {
  GgufBuilder file = olmoe();
  file.f32("olmoe.rope.freq_base", 500.0f).text("olmoe.rope.scaling.type", "linear");
  file.f32("olmoe.rope.scaling.factor", 4.0f);
  const Checkpoint checkpoint = open(file);
  const Rope& rope = std::get<Rope>(checkpoint.spec().last().positions);
  REQUIRE(rope.inverse_frequencies.size() == 2);
  CHECK(rope.inverse_frequencies[0] == 0.25f);
}

/// `file` as parts 1 to 2, the tensors from `first` on in the second.
std::vector<GgufBuilder> split(const GgufBuilder& file, size_t first) {
  GgufBuilder head = file, rest;
  rest.tensors.assign(file.tensors.begin() + static_cast<long>(first), file.tensors.end());
  head.tensors.resize(first);
  const auto count = static_cast<uint32_t>(file.tensors.size());
  uint16_t number = 0;
  for (GgufBuilder* part : {&head, &rest}) {
    part->raw("split.no", 2, bytes_of(number++)).raw("split.count", 2, bytes_of<uint16_t>(2));
    part->raw("split.tensors.count", 5, bytes_of(count));
  }
  return {head, rest};
}

TEST_CASE(
    "gguf models: any part of a split model names all; parts missing, of others or under other names are refused") {
  const std::vector<GgufBuilder> parts = split(olmoe(), 4);
  const TempDir directory;
  const auto put = [&](const std::string& name, GgufBuilder file) {
    write_file(directory.path() + "/" + name, file.build());
    return directory.path() + "/" + name;
  };
  const std::string first = "m-00001-of-00002.gguf", second = "m-00002-of-00002.gguf";
  const std::string whole = put(first, parts[0]);
  const auto check = [&](const std::vector<std::string>& words) {
    check_error([&] { Checkpoint::open(whole); }, words);
  };
  check({second, "missing file"});
  for (const std::string& path : {put(second, parts[1]), whole}) {
    const Checkpoint checkpoint = Checkpoint::open(path);
    checkpoint.check_tensors();
    CHECK(checkpoint.files().size() == 2);
  }
  put(second, parts[0]);
  check({"\"split.no\"", "expected 1, found 0"});
  put(second, olmoe());
  check({"\"split.no\"", "found none"});
  put(second, GgufBuilder(parts[1]).text("general.architecture", "llama"));
  check({"general.architecture", "different models"});
  put(second, GgufBuilder(parts[1]).zeros("blk.0.attn_q.bias", {kWidth}));
  check({"\"split.tensors.count\""});
  check_error([&] { Checkpoint::open(put("m.gguf", parts[0])); }, {"name of a part", "-00001-of-00002.gguf"});
  check_error([&] { Checkpoint::open(put("m-00003-of-00002.gguf", parts[0])); }, {"found 3 of 2"});
}

}  // namespace
