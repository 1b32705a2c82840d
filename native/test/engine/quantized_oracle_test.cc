// Engines of quantized packs: against an engine of the same weights written out as f32, and against
// transformers.
#include <fcntl.h>
#include <unistd.h>

#include <cstring>

#include "core/file.h"
#include "core/json.h"
#include "doctest/doctest.h"
#include "model/dispatch.h"
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
using testing::greedy;
using testing::Inputs;
using testing::inputs_of;
using testing::pass_of;
using testing::relative_error;
using testing::Run;
using testing::run;
using testing::same_bits;
using testing::TempDir;

constexpr WeightFormat kInt8{WeightType::kInt8, 0};
constexpr WeightFormat int4(uint32_t group) { return {WeightType::kInt4, group}; }
BatchLimits limits_on(DeviceKind device) { return {320, 1024, 2, 1, true, ActivationFormat::kF32, device}; }

void overwrite(const std::string& path, uint64_t offset, const std::vector<std::byte>& bytes) {
  const int fd = open(path.c_str(), O_WRONLY);
  REQUIRE(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)) ==
          static_cast<ssize_t>(bytes.size()));
  close(fd);
}

/// The packed matrix at `offset` of a file, read back as f32 and packed as such.
std::vector<std::byte> widened(const File& file, uint64_t offset, WeightFormat format, size_t n, size_t k) {
  std::vector<std::byte> packed(panel_matrix_bytes(n, k, format));
  file.pread_exact(offset, packed.data(), packed.size());
  std::vector<float> rows(n * k);
  for (size_t row = 0; row < n; ++row) read_panel_row({packed.data(), format, k, n}, row, &rows[row * k]);
  std::vector<std::byte> out(panel_matrix_bytes(n, k, kF32Format));
  pack_panels(rows.data(), n, k, kF32Format, out.data());
  return out;
}

/// Writes the quantized weights of `pack` as f32 into the pack `twin`.
void write_twin(const Pack& pack, const Pack& twin) {
  const File dense = File::open(pack.dense_path());
  for (size_t i = 0; i < pack.dense.tensors.size(); ++i) {
    const DenseTensor& tensor = pack.dense.tensors[i];
    if (!tensor.panels()) continue;
    overwrite(twin.dense_path(), twin.dense.tensors[i].offset,
              widened(dense, tensor.offset, tensor.format, tensor.rows(), tensor.columns()));
  }
  const File experts = File::open(pack.expert_path());
  const ExpertLayout &from = pack.experts, &to = twin.experts;
  for (size_t id = 0; id < from.experts(); ++id) {
    const size_t layer = from.shape.place(static_cast<ExpertId>(id)).layer;
    for (size_t i = 0; i < from.layers[layer].matrices.size(); ++i) {
      const ExpertMatrix& matrix = from.layers[layer].matrices[i];
      const uint64_t begin = pack.stripe_layout().place(static_cast<ExpertId>(id)).offset;
      overwrite(twin.expert_path(), id * to.slot_bytes + to.layers[layer].matrices[i].offset,
                widened(experts, begin + matrix.offset, matrix.format, matrix.n, matrix.k));
    }
  }
}

struct Answer {
  Run encoded, decoded;
  std::vector<std::vector<int32_t>> greedy;
};

/// Every case of a fixture, in order.
std::vector<Answer> answers_of(Engine& engine, const Cases& cases, const JsonDocument& list) {
  std::vector<Answer> answers;
  for (const JsonValue& entry : list.root().elements()) {
    const std::string prefix = entry.at("case").as_string() + ".";
    const Inputs in = inputs_of(cases, prefix);
    const DecoderInputs own = decoder_inputs_of(cases, prefix, in.batch);
    Answer answer;
    answer.encoded = run(engine, pass_of(0, in.ids, in.offsets, in.tokens));
    answer.decoded = run(engine, own.after(in.ids));
    engine.release_sequences(own.sequences);
    const int32_t start = *engine.spec().tokens.start;
    for (const int32_t id : in.ids) answer.greedy.push_back(greedy(engine, id, start, 16));
    engine.release_sequences(in.ids);
    answers.push_back(std::move(answer));
  }
  CHECK(engine.memory().peak() <= engine.memory().budget());
  return answers;
}

/// Each layer's matrices in types of their own, and the dense matrices in turn.
PackFormats mixed_formats(const ModelSpec& spec) {
  PackFormats formats = uniform_formats(spec, kF32Format, kF32Format);
  formats.all_experts.reset();
  formats.all_dense.reset();
  const WeightFormat expert_types[] = {kQ4_0Format, kQ8_0Format, kMxfp4Format, int4(64), kBf16Format};
  size_t next = 0;
  for (ExpertFormats& layer : formats.experts) {
    layer.up = expert_types[next++ % 5];
    layer.down = expert_types[next++ % 5];
  }
  const WeightFormat dense_types[] = {kQ8_0Format, kF32Format, kQ4_0Format, kInt8, kBf16Format};
  for (size_t i = 0; i < formats.dense.size(); ++i) formats.dense[i] = dense_types[i % 5];
  return formats;
}

/// Packs a checkpoint; without formats in mixed ones.
struct Packing {
  std::optional<WeightFormat> experts, dense;

  void write(const std::string& checkpoint, const std::string& directory) const {
    if (experts) return testing::write_pack(checkpoint, directory, experts, dense);
    Checkpoint opened = Checkpoint::open(checkpoint);
    PackFormats formats = mixed_formats(opened.spec());
    PackWriter writer(std::move(opened), directory, std::move(formats));
    testing::finish_pack(writer, checkpoint);
  }
};

void check_format(DeviceKind device, const std::string& name, std::optional<WeightFormat> experts = {},
                  std::optional<WeightFormat> dense = {}) {
  // On cuda weights of bf16, int8 and int4 meet activations of 16 bits; those of the twin meet 24.
  const double tolerance = device == DeviceKind::kCpu ? 2e-5 : 3e-4;
  CAPTURE(testing::device_name(device));
  CAPTURE(name);
  CAPTURE(std::string(experts ? weight_type_name(experts->type) : kMixedFormats));
  CAPTURE(experts.value_or(kF32Format).group);
  const std::string directory = fixture(name);
  const Cases cases(directory);
  const auto list = JsonDocument::parse(read_text_file(directory + "/cases.json", 1 << 20), {"cases.json"});
  TempDir packed, twin;
  Packing{experts, dense}.write(directory, packed.path());
  testing::write_pack(directory, twin.path());
  write_twin(open_pack(packed.path()), open_pack(twin.path()));
  const auto answers_at = [&](const std::string& pack, double share) {
    Engine engine(testing::options_for(pack, limits_on(device), share));
    return answers_of(engine, cases, list);
  };
  const std::vector<Answer> resident = answers_at(packed.path(), 1.0);
  const std::vector<Answer> widened = answers_at(twin.path(), 1.0);
  for (size_t i = 0; i < resident.size(); ++i) {
    CAPTURE(i);
    CHECK(resident[i].encoded.dispatch == widened[i].encoded.dispatch);
    CHECK(resident[i].decoded.dispatch == widened[i].decoded.dispatch);
    CHECK(relative_error(resident[i].encoded.hidden, widened[i].encoded.hidden) < tolerance);
    CHECK(relative_error(resident[i].decoded.logits, widened[i].decoded.logits) < tolerance);
    CHECK(resident[i].greedy == widened[i].greedy);
  }
  for (const double share : testing::shares_on(device)) {
    if (share == 1.0) continue;
    CAPTURE(share);
    const std::vector<Answer> answers = answers_at(packed.path(), share);
    for (size_t i = 0; i < resident.size(); ++i) {
      CAPTURE(i);
      CHECK(same_bits(answers[i].encoded.hidden, resident[i].encoded.hidden));
      CHECK(same_bits(answers[i].decoded.logits, resident[i].decoded.logits));
      CHECK(answers[i].greedy == resident[i].greedy);
    }
  }
}

TEST_CASE("quantized packs: an engine computes with the weights that the pack holds, at every residency") {
  for (const DeviceKind device : testing::devices()) {
    for (const char* name : {"switch-tiny-capacity4", "switch-tiny-untied"}) {
      check_format(device, name, kBf16Format, kBf16Format);
      check_format(device, name, kInt8, kF32Format);
      check_format(device, name, kInt8, kInt8);
      for (const uint32_t group : {32, 64, 128}) check_format(device, name, int4(group), kF32Format);
    }
    check_format(device, "switch-tiny-capacity4", kQ8_0Format, kQ8_0Format);
    check_format(device, "switch-tiny-capacity4", kQ4_0Format, kMxfp4Format);
  }
}

TEST_CASE("quantized packs: layers with blocks of other types and sizes, at every residency") {
  for (const DeviceKind device : testing::devices()) check_format(device, "switch-tiny-capacity4");
}

TEST_CASE("quantized packs: loads of mixed blocks are counted with their own bytes") {
  TempDir packed;
  Packing{}.write(fixture("switch-tiny-capacity4"), packed.path());
  const Pack pack = open_pack(packed.path());
  uint64_t all = 0, largest = 0;
  for (ExpertId id = 0; id < pack.experts.experts(); ++id) {
    all += pack.experts.block_bytes(id);
    largest = std::max(largest, pack.experts.block_bytes(id));
  }
  CHECK(pack.experts.slot_bytes == largest);
  CHECK(all < largest * pack.experts.experts());
  CHECK(File::open(pack.expert_path()).size() == all);
  Engine engine(testing::options_for(packed.path(), limits_on(DeviceKind::kCpu), 1.0));
  // One slot always stays unpinned.
  std::vector<ExpertId> pinned(pack.experts.experts() - 1);
  for (ExpertId id = 0; id < pinned.size(); ++id) pinned[id] = id;
  engine.store().pin(pinned, true);
  CHECK(engine.store().take_stats().bytes_moved == all - pack.experts.block_bytes(pack.experts.experts() - 1));
}

/// Of sequences that the encoder routes as transformers does, all tokens in every layer: their number and the
/// largest relative error of a hidden state; and the greedy continuations that are the same.
struct Closeness {
  double worst = 0;
  size_t routed_alike = 0, greedy_alike = 0;
};

Closeness closeness(const std::string& directory, WeightFormat experts, WeightFormat dense,
                    ActivationFormat activations) {
  const Cases cases(directory);
  const auto list = JsonDocument::parse(read_text_file(directory + "/cases.json", 1 << 20), {"cases.json"});
  TempDir packed;
  testing::write_pack(directory, packed.path(), experts, dense);
  BatchLimits limits = limits_on(DeviceKind::kCpu);
  limits.activations = activations;
  Engine engine(testing::options_for(packed.path(), limits, 1.0));
  const std::vector<Answer> answers = answers_of(engine, cases, list);
  const size_t width = engine.spec().width;
  Closeness found;
  size_t i = 0;
  for (const JsonValue& entry : list.root().elements()) {
    const Answer& answer = answers[i++];
    const std::string prefix = entry.at("case").as_string() + ".";
    const Inputs in = inputs_of(cases, prefix);
    const auto hidden = in.real_rows(cases.read<float>(prefix + "encoder_last_hidden_state"));
    std::vector<uint8_t> alike(in.batch, 1);
    size_t layer = 0;
    for (const std::string& moe : engine.spec().moe_layers()) {
      if (moe.rfind("encoder", 0) != 0) continue;
      const auto expected = in.real_rows(cases.read<int64_t>(
          prefix + "encoder.block." + moe.substr(moe.find('.') + 1) + ".layer.1.mlp.router.dispatch"));
      for (size_t b = 0; b < in.batch; ++b) {
        for (auto t = static_cast<size_t>(in.offsets[b]); t < static_cast<size_t>(in.offsets[b + 1]); ++t) {
          const uint16_t chosen = answer.encoded.dispatch[layer * in.tokens.size() + t];
          if ((chosen == kNoExpert ? -1 : chosen) != expected[t]) alike[b] = 0;
        }
      }
      ++layer;
    }
    for (size_t b = 0; b < in.batch; ++b) {
      if (alike[b] == 0) continue;
      ++found.routed_alike;
      const auto begin = static_cast<long>(static_cast<size_t>(in.offsets[b]) * width);
      const auto end = static_cast<long>(static_cast<size_t>(in.offsets[b + 1]) * width);
      found.worst = std::max(found.worst, relative_error({answer.encoded.hidden.begin() + begin,
                                                          answer.encoded.hidden.begin() + end},
                                                         {hidden.begin() + begin, hidden.begin() + end}));
    }
    size_t row = 0;
    for (const JsonValue& line : entry.at("greedy").elements()) {
      std::vector<int32_t> wanted;
      for (const JsonValue& id : line.elements()) wanted.push_back(static_cast<int32_t>(id.as_i64()));
      const std::vector<int32_t>& own = answer.greedy[row++];
      wanted.resize(std::min(wanted.size(), own.size()));
      found.greedy_alike += own == wanted;
    }
  }
  return found;
}

/// How close a format stays to transformers' answers. The fixtures' weights are random, so many router decisions
/// are near ties: how many survive is counted, and does not depend on the machine.
struct Kept {
  const char* fixture;
  WeightFormat experts, dense;
  double error;
  size_t routed_alike, greedy_alike;
  ActivationFormat activations = ActivationFormat::kF32;
};

TEST_CASE("quantized packs: close to transformers in float32 where the routers agree") {
  const char* capacity = "switch-tiny-capacity4";
  const char* untied = "switch-tiny-untied";
  for (const Kept& kept : {
           Kept{capacity, kBf16Format, kF32Format, 0.005, 10, 10},
           Kept{untied, kBf16Format, kF32Format, 0.005, 10, 10},
           Kept{capacity, kInt8, kF32Format, 0.02, 9, 10},
           Kept{untied, kInt8, kF32Format, 0.02, 6, 8},
           Kept{capacity, kInt8, kInt8, 0.06, 2, 4},
           Kept{untied, kInt8, kInt8, 0.06, 2, 1},
           Kept{capacity, int4(32), kF32Format, 0.2, 3, 5},
           Kept{untied, int4(32), kF32Format, 0.2, 2, 0},
           Kept{capacity, int4(64), kF32Format, 0.2, 3, 7},
           Kept{capacity, int4(128), kF32Format, 0.2, 5, 6},
           Kept{capacity, kBf16Format, kBf16Format, 0.06, 4, 8, ActivationFormat::kBf16},
           Kept{untied, kBf16Format, kBf16Format, 0.02, 3, 4, ActivationFormat::kBf16},
       }) {
    CAPTURE(std::string(kept.fixture));
    CAPTURE(std::string(weight_type_name(kept.experts.type)));
    CAPTURE(kept.experts.group);
    CAPTURE(std::string(weight_type_name(kept.dense.type)));
    const Closeness found = closeness(fixture(kept.fixture), kept.experts, kept.dense, kept.activations);
    CHECK(found.worst < kept.error);
    CHECK(found.routed_alike >= kept.routed_alike);
    CHECK(found.greedy_alike >= kept.greedy_alike);
  }
}

}  // namespace
}  // namespace sida
