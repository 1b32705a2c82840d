// Packs of GGUF files whose layers and matrices have types of their own, as llama.cpp's Q4_K_M has them.
#include "checkpoint/gguf_experts.h"
#include "checkpoint/pack_verifier.h"
#include "support/gguf_builder.h"
#include "support/oracle_cases.h"
#include "support/safetensors_builder.h"
#include "support/weight_formats.h"

namespace {

constexpr uint64_t kWidth = 256, kVocab = 70, kExperts = 4;

/// GGUF's numbers of types.
const std::map<Dtype, uint32_t> kNumbers{
    {Dtype::kF32, 0},   {Dtype::kQ4_0, 2},    {Dtype::kQ4_1, 3},   {Dtype::kQ5_0, 6},      {Dtype::kQ5_1, 7},
    {Dtype::kQ8_0, 8},  {Dtype::kQ2_K, 10},   {Dtype::kQ3_K, 11},  {Dtype::kQ4_K, 12},     {Dtype::kQ5_K, 13},
    {Dtype::kQ6_K, 14}, {Dtype::kIq2Xxs, 16}, {Dtype::kIq2Xs, 17}, {Dtype::kIq3Xxs, 18},   {Dtype::kIq4Nl, 20},
    {Dtype::kIq3S, 21}, {Dtype::kIq2S, 22},   {Dtype::kIq4Xs, 23}, {Dtype::kGgmlMxfp4, 39}};

using Types = std::vector<Dtype>;
/// Of the matrices of two layers, seven each. The value projections and half of the down projections have more bits
/// than the others.
const Types kQ4KM{Dtype::kQ4_K,      Dtype::kQ4_K, Dtype::kQ6_K, Dtype::kQ4_K,     Dtype::kQ4_K,
                  Dtype::kQ4_K,      Dtype::kQ6_K, Dtype::kQ8_0, Dtype::kQ4_0,     Dtype::kQ4_K,
                  Dtype::kGgmlMxfp4, Dtype::kQ8_0, Dtype::kQ4_0, Dtype::kGgmlMxfp4};

void add(GgufBuilder& file, const std::string& name, std::vector<uint64_t> dimensions, Dtype dtype = Dtype::kF32) {
  const uint64_t count = std::accumulate(dimensions.begin(), dimensions.end(), uint64_t{1}, std::multiplies<>());
  const auto seed = static_cast<unsigned>(file.tensors.size() + 1);
  std::string data;
  if (dtype == Dtype::kF32) {
    std::vector<float> numbers = random_floats(count, seed);
    // Norms about 1, routers of any size.
    if (dimensions.size() == 1) {
      for (float& number : numbers) number = 1 + number / 8;
    }
    data.assign(reinterpret_cast<const char*>(numbers.data()), count * sizeof(float));
  } else {
    const auto blocks = random_blocks(dtype, count / kWidth, kWidth, seed);
    data.assign(reinterpret_cast<const char*>(blocks.data()), blocks.size());
  }
  file.tensors.push_back({name, std::move(dimensions), kNumbers.at(dtype), std::move(data)});
}

/// With types of rows that are no multiple of 256.
const Types kFallbacks{Dtype::kIq4Xs, Dtype::kQ5_0, Dtype::kQ8_0, Dtype::kIq4Nl,
                       Dtype::kQ2_K,  Dtype::kQ5_1, Dtype::kQ4_1};

/// Some of these share a type in the pack.
const Types kSmall{Dtype::kIq2Xxs, Dtype::kIq3S, Dtype::kIq2S,  Dtype::kQ4_K,
                   Dtype::kIq2Xs,  Dtype::kIq2S, Dtype::kIq3Xxs};

/// An OLMoE of two layers, whose matrices have the types in turn.
GgufBuilder mixed_model(const Types& types = kQ4KM) {
  GgufBuilder file;
  file.text("general.architecture", "olmoe").u32("olmoe.block_count", 2).u32("olmoe.context_length", 64);
  file.u32("olmoe.embedding_length", kWidth).u32("olmoe.feed_forward_length", kWidth);
  file.u32("olmoe.attention.head_count", 4).f32("olmoe.attention.layer_norm_rms_epsilon", 1e-5f);
  file.u32("olmoe.expert_count", kExperts).u32("olmoe.expert_used_count", 2);
  file.u32("tokenizer.ggml.eos_token_id", 2);
  add(file, "token_embd.weight", {kWidth, kVocab}, types[0]);
  add(file, "output.weight", {kWidth, kVocab}, types[2 % types.size()]);
  add(file, "output_norm.weight", {kWidth});
  size_t next = 0;
  const auto type = [&] { return types[next++ % types.size()]; };
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    for (const char* name : {"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"}) {
      add(file, prefix + name + ".weight", {kWidth});
    }
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      add(file, prefix + name + ".weight", {kWidth, kWidth}, type());
    }
    add(file, prefix + "ffn_gate_inp.weight", {kWidth, kExperts});
    for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
      add(file, prefix + name + ".weight", {kWidth, kWidth, kExperts}, type());
    }
  }
  return file;
}

/// The file, and its pack with these types; without one matrices keep their own.
struct PackedFile {
  TempDir directory;
  std::string model = directory.path() + "/m.gguf";
  std::string pack = directory.path() + "/pack";

  explicit PackedFile(const GgufBuilder& file, std::optional<WeightFormat> format = {}, bool in_place = false) {
    write_file(model, file.build());
    std::filesystem::create_directory(pack);
    PackWriter writer(model, pack, format, format, in_place);
    finish_pack(writer, model);
    write_file(
        pack + "/config.json",
        R"({"model_type":"olmoe","vocab_size":70,"hidden_size":256,"intermediate_size":256,"num_hidden_layers":2,)"
        R"("num_attention_heads":4,"num_key_value_heads":4,"num_experts":4,"num_experts_per_tok":2,)"
        R"("norm_topk_prob":false,"rms_norm_eps":1e-05,"max_position_embeddings":64,"eos_token_id":2})");
  }
};

/// A prompt, and a pass after it that takes one token.
std::vector<Run> answers_of(const std::string& pack, DeviceKind device, double share, ReadTuning reads = {}) {
  EngineOptions options = options_for(pack, limits_on(device, {64, 128, 2}), share);
  options.reads = reads;
  Engine engine(options);
  std::vector<Run> runs{feed(engine, 1, {5, 69, 31, 32, 0, 7, 7, 64})};
  runs.push_back(feed(engine, 1, {9}));
  CHECK(engine.memory().peak() <= engine.memory().budget());
  return runs;
}

TEST_CASE("gguf packs: matrices keep their own types, and a comparison with the file finds no difference") {
  const PackedFile packed(mixed_model());
  const Pack pack = open_pack(packed.pack);
  CHECK(!pack.formats.all_experts);
  CHECK(!pack.formats.all_dense);
  CHECK(pack.formats.experts[0] == ExpertFormats{kQ4_KFormat, kQ4_KFormat, kQ6_KFormat});
  CHECK(pack.formats.experts[1] == ExpertFormats{kQ8_0Format, kQ4_0Format, kMxfp4Format});
  for (const DenseTensor& tensor : pack.dense.tensors) {
    if (tensor.name == "decoder.embedding") CHECK(tensor.format == kQ4_KFormat);
    if (tensor.name == "head") CHECK(tensor.format == kQ6_KFormat);
    if (tensor.name == "decoder.1.output") CHECK(tensor.format == kMxfp4Format);
  }
  PackVerifier verifier(packed.model, packed.pack);
  verifier.check_dense(0, pack.dense.tensors.size());
  verifier.check_experts(0, pack.experts.experts());
  for (const PackVerifier::Errors& errors : {verifier.report().experts, verifier.report().dense}) {
    CHECK(errors.largest == 0);
    CHECK(errors.bound == 0);
  }
}

/// Answers of a file's pack at every budget and on every device.
void check_answers(const Types& types) {
  const GgufBuilder file = mixed_model(types);
  const PackedFile packed(file), wide(file, kF32Format);
  const std::vector<Run> expected = answers_of(wide.pack, DeviceKind::kCpu, 1.0);
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    const std::vector<Run> resident = answers_of(packed.pack, device, 1.0);
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(resident[i].dispatch == expected[i].dispatch);
      if (device == DeviceKind::kCpu) {
        CHECK(same_bits(resident[i].logits, expected[i].logits));
      } else {
        CHECK(relative_error(resident[i].logits, expected[i].logits) < 3e-4);
      }
    }
    for (const double share : shares_on(device)) {
      CASE(share);
      const std::vector<Run> found = answers_of(packed.pack, device, share);
      for (size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i].logits, resident[i].logits));
    }
  }
}

TEST_CASE("gguf packs: answers have the same bits at every budget; on the cpu, the same numbers in f32 give them") {
  check_answers(kQ4KM);
  for (const Dtype type : kCopiedTypes) {
    CASE(dtype_name(type));
    check_answers({type});
  }
  // As llama.cpp mixes them: Q5_K_M, Q3_K_M, and what rows of other lengths fall back to.
  check_answers({Dtype::kQ5_K, Dtype::kQ5_K, Dtype::kQ6_K, Dtype::kQ5_K, Dtype::kQ5_K});
  check_answers({Dtype::kQ3_K, Dtype::kQ3_K, Dtype::kQ5_K, Dtype::kQ4_K});
  check_answers(kFallbacks);
  check_answers(kSmall);
}

TEST_CASE("gguf packs: experts that stay in the file have the bytes of a pack, wherever a read begins and ends") {
  for (const Types& types : {kQ4KM, kFallbacks, kSmall}) {
    const PackedFile packed(mixed_model(types)), kept(mixed_model(types), {}, true);
    CHECK_FALSE(std::filesystem::exists(kept.pack + "/experts.sida"));
    CHECK(keeps_experts(Checkpoint::open(kept.model)));
    const std::string blocks = read_text_file(open_pack(packed.pack).expert_path());
    GgufExperts experts(open_pack(kept.pack));
    CHECK(experts.bytes() == blocks.size());
    for (const size_t bytes : {size_t{1} << 20, size_t{4096}, size_t{777}}) {
      CASE(bytes);
      std::string found(blocks.size(), 'x');
      for (size_t begin = 0; begin < found.size(); begin += bytes) {
        iovec buffer{found.data() + begin, std::min(bytes, found.size() - begin)};
        experts.read(begin, {&buffer, 1});
      }
      CHECK(found == blocks);
    }
    check_error([&] { experts.read(blocks.size() - 1, 2, nullptr); }, {kept.model, "expected 2 bytes"}, "io_error");
    for (const std::string& pack : {packed.pack, kept.pack}) {
      PackVerifier verifier(kept.model, pack);
      verifier.check_experts(0, kExperts * 2);
      CHECK(verifier.report().experts.largest == 0);
    }
  }
}

TEST_CASE("gguf packs: experts that stay in the file give the bits of a pack at every budget and length of a read") {
  const PackedFile packed(mixed_model()), kept(mixed_model(), {}, true);
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    const std::vector<Run> resident = answers_of(packed.pack, device, 1.0);
    for (const double share : shares_on(device)) {
      for (const uint64_t chunk : {uint64_t{0}, uint64_t{4096}, uint64_t{12288}}) {
        CASE(share, chunk);
        const std::vector<Run> found = answers_of(kept.pack, device, share, {2, chunk});
        for (size_t i = 0; i < resident.size(); ++i) CHECK(same_bits(found[i].logits, resident[i].logits));
      }
    }
  }
}

TEST_CASE("gguf packs: a file with other experts is refused, and so is a link to nothing") {
  const PackedFile kept(mixed_model(), {}, true);
  GgufBuilder other = mixed_model();
  for (GgufBuilder::Tensor& tensor : other.tensors) {
    if (tensor.name != "blk.0.ffn_up_exps.weight") continue;
    const auto blocks = random_blocks(Dtype::kQ8_0, kWidth * kExperts, kWidth, 3);
    tensor.type = kNumbers.at(Dtype::kQ8_0);
    tensor.data.assign(reinterpret_cast<const char*>(blocks.data()), blocks.size());
  }
  write_file(kept.model, other.build());
  check_error([&] { open_experts(open_pack(kept.pack)); }, {"decoder.0 expert 0: up", "convert the model again"},
              "pack_invalid");
  std::filesystem::remove(kept.pack + "/" + kGgufLink);
  check_error([&] { open_pack(kept.pack); }, {"experts.gguf: expected a link to a GGUF file, found none"},
              "pack_invalid");
}

TEST_CASE("gguf packs: a scale that is no number is refused with its tensor and block, whatever type is packed") {
  struct Damage {
    const char *name, *type;
    size_t row_bytes, at;  // of the scale in its row
    int row;
    const char* columns;
    Types types = kQ4KM;
  };
  for (const Damage& damage : {Damage{"blk.0.ffn_down_exps.weight", "Q6_K", 210, 208, 300, "0 to 255"},
                               {"blk.0.attn_q.weight", "Q4_K", 144, 2, 9, "0 to 255"},
                               {"blk.1.ffn_gate_exps.weight", "Q8_0", 8 * 34, 2 * 34, 700, "64 to 95"},
                               {"blk.1.attn_k.weight", "Q4_0", 8 * 18, 7 * 18, 3, "224 to 255"},
                               {"blk.0.ffn_up_exps.weight", "Q5_1", 8 * 24, 24 + 2, 5, "32 to 63", kFallbacks},
                               {"blk.0.ffn_gate_exps.weight", "Q2_K", 84, 82, 7, "0 to 255", kFallbacks},
                               {"blk.0.attn_q.weight", "IQ4_XS", 136, 0, 255, "0 to 255", kFallbacks},
                               {"blk.0.attn_k.weight", "Q5_0", 8 * 22, 3 * 22, 4, "96 to 127", kFallbacks},
                               {"blk.0.attn_output.weight", "IQ4_NL", 8 * 18, 18, 0, "32 to 63", kFallbacks},
                               {"blk.1.ffn_down_exps.weight", "Q4_1", 8 * 20, 2, 511, "0 to 31", kFallbacks},
                               {"blk.0.attn_q.weight", "Q3_K", 110, 108, 17, "0 to 255", {Dtype::kQ3_K}},
                               {"blk.0.attn_q.weight", "IQ2_XXS", 66, 0, 9, "0 to 255", kSmall},
                               {"blk.0.ffn_down_exps.weight", "IQ3_XXS", 98, 0, 40, "0 to 255", kSmall},
                               {"blk.1.attn_v.weight", "Q5_K", 176, 2, 31, "0 to 255", {Dtype::kQ5_K}}}) {
    CASE(damage.name);
    for (const auto& [bits, found] : {std::pair{uint16_t{0x7c00}, "infinity"}, {uint16_t{0x7e01}, "NaN"}}) {
      GgufBuilder file = mixed_model(damage.types);
      for (GgufBuilder::Tensor& tensor : file.tensors) {
        if (tensor.name != damage.name) continue;
        std::memcpy(tensor.data.data() + static_cast<size_t>(damage.row) * damage.row_bytes + damage.at, &bits, 2);
      }
      for (const auto& [format, in_place] :
           {std::pair{std::optional<WeightFormat>{}, false}, {{}, true}, {kF32Format, false}, {kBf16Format, false}}) {
        CASE(in_place);
        const std::optional<WeightFormat> own = format;
        const bool kept = in_place;
        check_error([&] { const PackedFile packed(file, own, kept); },
                    {"m.gguf: tensor \"" + std::string(damage.name) + "\": a scale of " + damage.type +
                         ": block of row " + std::to_string(damage.row) + ", columns " + damage.columns,
                     std::string("expected a finite number, found ") + found});
      }
    }
  }
}

}  // namespace
