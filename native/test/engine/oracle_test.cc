// Engines against Hugging Face transformers: every row of the table on every device and at several budgets.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/oracle_table.h"
#include "ops/dispatch.h"
#include "support/routing_table.h"

namespace {

/// What transformers' router of a layer gave, and the experts that each token went to.
struct RouterAnswer {
  std::vector<float> logits;  ///< empty where the fixture has none
  std::vector<std::set<int64_t>> chosen;
};

RouterAnswer router_answer(const Cases& cases, const Case& c, const ModelSpec& spec, const StackSpec& stack,
                           size_t layer) {
  const size_t experts = spec.experts(), k = spec.top_k();
  const bool padded = spec.stacks.size() == 2 && !stack.causal;
  const auto rows = [&](const auto& values) { return padded ? c.real_rows(values) : values; };
  const std::string number = std::to_string(layer), decoder_router = c.prefix + "router." + number + ".logits";
  const std::string switch_router =
      c.prefix + stack.name + ".block." + number + ".layer." + (stack.causal ? "2" : "1") + ".mlp.router.";
  const std::string nllb_router = c.prefix + "model." + stack.name + ".layers." + number + ".ffn.router.";
  RouterAnswer answer;
  if (cases.has(switch_router + "dispatch")) {
    answer.logits = rows(cases.read<float>(switch_router + "logits"));
    for (const int64_t expert : rows(cases.read<int64_t>(switch_router + "dispatch"))) {
      answer.chosen.push_back(expert < 0 ? std::set<int64_t>{} : std::set{expert});
    }
  } else if (cases.has(nllb_router + "weights")) {
    answer.logits = rows(cases.read<float>(nllb_router + "logits"));
    const auto weights = rows(cases.read<float>(nllb_router + "weights"));
    answer.chosen.resize(weights.size() / experts);
    for (size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] > 0) answer.chosen[i / experts].insert(static_cast<int64_t>(i % experts));
    }
  } else if (cases.has(decoder_router)) {
    answer.logits = cases.read<float>(decoder_router);
    for (size_t begin = 0; begin < answer.logits.size(); begin += experts) {
      std::vector<int64_t> order(experts);
      std::iota(order.begin(), order.end(), 0);
      const float* logits = &answer.logits[begin];
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
      answer.chosen.emplace_back(order.begin(), order.begin() + static_cast<long>(k));
    }
  } else {
    const auto chosen = cases.read<int64_t>(c.prefix + "moe." + number + ".experts");
    for (size_t begin = 0; begin < chosen.size(); begin += k) {
      answer.chosen.emplace_back(&chosen[begin], &chosen[begin] + k);
    }
  }
  return answer;
}

/// Calls with each MoE layer's answer, its place in a pass of the stack, and the experts that the pass chose.
template <class Visit>
void each_router(const PackedFixture& f, const Case& c, const ModelSpec& spec, size_t stack, const Run& found,
                 Visit visit) {
  const size_t tokens = found.hidden.size() / spec.width, k = spec.top_k();
  size_t place = 0;
  for (size_t layer = 0; layer < spec.stacks[stack].layers.size(); ++layer) {
    if (spec.stacks[stack].layers[layer].moe() == nullptr) continue;
    std::vector<std::set<int64_t>> chosen(tokens);
    for (size_t i = 0; i < tokens * k; ++i) {
      const uint16_t expert = found.dispatch[place * tokens * k + i];
      if (expert != kNoExpert) chosen[i / k].insert(expert);
    }
    CASE(spec.stacks[stack].name, layer);
    visit(router_answer(f.cases, c, spec, spec.stacks[stack], layer), place++, chosen);
  }
}

/// What an engine answers to a case: the encoder's pass, if there is one, that of the last stack, greedy texts.
struct Answer {
  Run encoded, decoded;
  std::vector<std::vector<int32_t>> greedy;
};

/// Greedy texts have at most `longest` tokens.
Answer answer_to(Engine& engine, const Case& c, size_t longest) {
  const bool encoder = engine.spec().stacks.size() == 2;
  Answer answer;
  if (encoder) answer.encoded = run(engine, pass_of(0, c.ids, c.offsets, c.tokens));
  Batch last = encoder ? pass_of(1, c.decoder_ids, c.decoder_offsets, c.decoder_tokens, c.ids)
                       : pass_of(0, c.ids, c.offsets, c.tokens);
  if (engine.spec().head.present) last.logit_rows = c.rows;
  answer.decoded = run(engine, last);
  engine.release_sequences(encoder ? c.decoder_ids : c.ids);
  for (size_t row = 0; row < c.greedy.size() && longest > 0; ++row) {
    const size_t count = std::min(longest, c.greedy[row].size());
    if (!encoder) {
      answer.greedy.push_back(continuation(engine, c.tokens, count));
      continue;
    }
    std::vector<int32_t> text{*engine.spec().tokens.start};
    if (c.forced) text.push_back(*c.forced);
    const auto more = continuation(engine, text, count - text.size(), c.ids[row]);
    text.insert(text.end(), more.begin(), more.end());
    answer.greedy.push_back(text);
  }
  engine.release_sequences(c.ids);
  CHECK(engine.cache().free_pages() == engine.cache().pages());
  return answer;
}

/// A finished row of a padded batch goes on with padding in the reference.
bool same_text(const std::vector<int32_t>& found, const std::vector<int32_t>& wanted) {
  return found.size() <= wanted.size() && std::ranges::equal(found, std::span(wanted).first(found.size()));
}

/// Relative error of the logits, or of the last states of a model without a head.
double last_error(const PackedFixture& f, const Case& c, const ModelSpec& spec, const Answer& answer) {
  if (spec.head.present) return relative_error(answer.decoded.logits, f.cases.read<float>(c.prefix + "logits"));
  return relative_error(answer.decoded.hidden, c.real_rows(f.cases.read<float>(c.prefix + "last_hidden_state")));
}

void check_exact(const PackedFixture& f, const Case& c, const ModelSpec& spec, const Answer& answer, double error) {
  for (size_t stack = 0; stack < spec.stacks.size(); ++stack) {
    const Run& found = stack + 1 == spec.stacks.size() ? answer.decoded : answer.encoded;
    each_router(f, c, spec, stack, found, [&](const RouterAnswer& wanted, size_t place, const auto& chosen) {
      const size_t count = wanted.logits.size();
      if (count > 0) CHECK(relative_error(part_of(found.router, place * count, count), wanted.logits) < error);
      CHECK(chosen == wanted.chosen);
    });
  }
  if (spec.stacks.size() == 2) {
    const auto states = c.real_rows(f.cases.read<float>(c.prefix + "encoder_last_hidden_state"));
    CHECK(relative_error(answer.encoded.hidden, states) < error);
  }
  CHECK(last_error(f, c, spec, answer) < error);
  for (size_t row = 0; row < answer.greedy.size(); ++row) CHECK(same_text(answer.greedy[row], c.greedy[row]));
}

/// Counts sequences whose tokens the encoder routes as transformers does, checks their states, and counts equal texts.
OracleRow::Kept kept_of(const PackedFixture& f, const Case& c, const ModelSpec& spec, const Answer& answer,
                        double error) {
  OracleRow::Kept kept{0, 0};
  std::vector<uint8_t> alike(c.tokens.size(), 1);
  each_router(f, c, spec, 0, answer.encoded, [&](const RouterAnswer& wanted, size_t, const auto& chosen) {
    for (size_t t = 0; t < alike.size(); ++t) alike[t] &= chosen[t] == wanted.chosen[t];
  });
  const auto states = c.real_rows(f.cases.read<float>(c.prefix + "encoder_last_hidden_state"));
  for (size_t b = 0; b < c.batch; ++b) {
    const auto begin = static_cast<size_t>(c.offsets[b]), end = static_cast<size_t>(c.offsets[b + 1]);
    if (std::find(&alike[begin], &alike[0] + end, 0) != &alike[0] + end) continue;
    ++kept.routed;
    const auto own = [&](const auto& all) { return part_of(all, begin * spec.width, (end - begin) * spec.width); };
    CHECK(relative_error(own(answer.encoded.hidden), own(states)) < error);
  }
  for (size_t row = 0; row < c.greedy.size(); ++row) kept.greedy += same_text(answer.greedy[row], c.greedy[row]);
  return kept;
}

/// Writes each matrix in a type of its own.
void write_mixed(const std::string& from, const std::string& to) {
  Checkpoint checkpoint = Checkpoint::open(from);
  PackFormats formats = uniform_formats(checkpoint.spec(), kF32Format, kF32Format);
  formats.all_experts.reset();
  formats.all_dense.reset();
  const WeightFormat expert_types[] = {kQ4_0Format, kQ8_0Format, kMxfp4Format, int4_format(64), kBf16Format};
  const WeightFormat dense_types[] = {kQ8_0Format, kF32Format, kQ4_0Format, kInt8Format, kBf16Format};
  size_t next = 0;
  for (ExpertFormats& layer : formats.experts) {
    layer.up = expert_types[next++ % 5];
    layer.down = expert_types[next++ % 5];
  }
  for (size_t i = 0; i < formats.dense.size(); ++i) formats.dense[i] = dense_types[i % 5];
  PackWriter writer(std::move(checkpoint), to, std::move(formats));
  finish_pack(writer, from);
}

PackedFixture packed(const OracleRow& row) {
  if (row.experts) return PackedFixture(row.fixture, *row.experts, *row.dense);
  return PackedFixture(row.fixture, write_mixed);
}

/// Writes the weights of `pack` as f32 into `twin`, a pack of the same checkpoint.
void write_twin(const Pack& pack, const Pack& twin) {
  const auto widen = [](const std::string& from, uint64_t at, WeightFormat format, size_t n, size_t k,
                        const std::string& to, uint64_t offset) {
    std::vector<std::byte> packed(panel_matrix_bytes(n, k, format)), out(panel_matrix_bytes(n, k, kF32Format));
    File::open(from).pread_exact(at, packed.data(), packed.size());
    std::vector<float> rows(n * k);
    for (size_t row = 0; row < n; ++row) read_panel_row({packed.data(), format, k, n}, row, &rows[row * k]);
    pack_panels(rows.data(), n, k, kF32Format, out.data());
    const int fd = open(to.c_str(), O_WRONLY);
    REQUIRE(pwrite(fd, out.data(), out.size(), static_cast<off_t>(offset)) == static_cast<ssize_t>(out.size()));
    close(fd);
  };
  for (size_t i = 0; i < pack.dense.tensors.size(); ++i) {
    const DenseTensor& tensor = pack.dense.tensors[i];
    if (!tensor.panels()) continue;
    widen(pack.dense_path(), tensor.offset, tensor.format, tensor.rows(), tensor.columns(), twin.dense_path(),
          twin.dense.tensors[i].offset);
  }
  const ExpertLayout &from = pack.experts, &to = twin.experts;
  for (ExpertId id = 0; id < from.experts(); ++id) {
    const size_t layer = from.shape.place(id).layer;
    const uint64_t begin = from.blocks_end(id);
    for (size_t i = 0; i < from.layers[layer].matrices.size(); ++i) {
      const ExpertMatrix& matrix = from.layers[layer].matrices[i];
      widen(pack.expert_path(), begin + matrix.offset, matrix.format, matrix.n, matrix.k, twin.expert_path(),
            id * to.slot_bytes + to.layers[layer].matrices[i].offset);
    }
  }
}

/// Whether a row runs a case on a device.
bool takes(const OracleRow& row, const Case& c, DeviceKind device) {
  if (emulated(device) && !row.exact() && c.tokens.size() > 40) return false;
  return row.only.empty() || c.prefix == row.only;
}

void check_twin(const OracleRow& row, const PackedFixture& f, const BatchLimits& limits, size_t longest,
                const std::vector<Answer>& answers) {
  const PackedFixture twin(row.fixture);
  write_twin(open_pack(f.pack.path()), open_pack(twin.pack.path()));
  Engine engine = twin.open(limits);
  const double error = limits.device == DeviceKind::kCpu ? row.twin->cpu : row.twin->cuda;
  size_t i = 0;
  for (const Case& c : f.list) {
    if (!takes(row, c, limits.device)) continue;
    CASE("twin", c.prefix);
    const Answer wide = answer_to(engine, c, longest), &found = answers[i++];
    CHECK(found.encoded.dispatch == wide.encoded.dispatch);
    CHECK(found.decoded.dispatch == wide.decoded.dispatch);
    CHECK(relative_error(found.encoded.hidden, wide.encoded.hidden) < error);
    CHECK(relative_error(found.decoded.logits, wide.decoded.logits) < error);
    CHECK(found.greedy == wide.greedy);
  }
}

/// Each sequence of a batch has the bits that it has alone.
void check_alone(Engine& engine, const Case& c, const Run& together) {
  const size_t width = engine.spec().width;
  const std::vector<int32_t> id{7};
  for (size_t b = 0; b < c.batch; ++b) {
    const auto begin = static_cast<size_t>(c.offsets[b]), count = static_cast<size_t>(c.offsets[b + 1]) - begin;
    const std::vector<int32_t> offsets{0, static_cast<int32_t>(count)}, tokens = part_of(c.tokens, begin, count);
    const Run alone = run(engine, pass_of(0, id, offsets, tokens));
    CHECK(same_bits(alone.hidden, part_of(together.hidden, begin * width, count * width)));
    engine.release_sequences(id);
  }
}

/// The emulated device runs each family in f32, and each type and smaller budgets with the weights of these models.
const std::set<std::string> kOfTypes{"switch-tiny-capacity4", "olmoe-tiny",  "gpt-oss-tiny",   "qwen3-next-tiny",
                                     "qwen3-5-moe-tiny",      "gemma4-tiny", "nomic-bert-tiny"};

void check_row(const OracleRow& row, const PackedFixture& f, DeviceKind device) {
  CASE(device_name(device));
  BatchLimits limits = limits_on(device);
  limits.activations = row.activations;
  // The emulated device takes seconds for each generated token.
  const size_t longest = !row.only.empty() && !row.twin ? 0 : emulated(device) ? 4 : SIZE_MAX;
  std::vector<Answer> resident;
  OracleRow::Kept kept{0, 0};
  for (const double share : shares_on(device)) {
    // Which experts move depends on no family.
    if (emulated(device) && share != 1 && !kOfTypes.contains(row.fixture)) continue;
    Engine engine = f.open(limits, share);
    size_t i = 0;
    for (const Case& c : f.list) {
      if (!takes(row, c, device)) continue;
      CASE(share, c.prefix);
      const Answer found = answer_to(engine, c, longest);
      if (share != 1) {
        CHECK(same_bits(found.encoded.hidden, resident[i].encoded.hidden));
        CHECK(same_bits(found.decoded.hidden, resident[i].decoded.hidden));
        CHECK(same_bits(found.decoded.logits, resident[i].decoded.logits));
        CHECK(found.encoded.dispatch == resident[i].encoded.dispatch);
        CHECK(found.decoded.dispatch == resident[i].decoded.dispatch);
        CHECK(found.greedy == resident[i++].greedy);
        continue;
      }
      resident.push_back(found);
      if (row.exact()) check_exact(f, c, engine.spec(), found, row.error);
      if (!row.only.empty()) CHECK(last_error(f, c, engine.spec(), found) < row.error);
      if (row.kept && device == DeviceKind::kCpu) {
        const auto [routed, greedy] = kept_of(f, c, engine.spec(), found, row.error);
        kept.routed += routed, kept.greedy += greedy;
      }
      if (!engine.spec().head.present && c.batch > 1) check_alone(engine, c, found.decoded);
      const bool slow = emulated(device) || kSanitized;
      if (!row.exact() || !engine.spec().stacks[0].causal || (slow && c.tokens.size() >= 50)) continue;
      for (const size_t chunk : {7, 1})
        CHECK(same_bits(logits_in_chunks(engine, c.tokens, chunk), found.decoded.logits));
    }
    CHECK(engine.memory().peak() <= engine.memory().budget());
  }
  if (row.twin) check_twin(row, f, limits, longest, resident);
  if (row.kept && device == DeviceKind::kCpu) {
    CHECK(kept.routed >= row.kept->routed);
    CHECK(kept.greedy >= row.kept->greedy);
  }
}

void each_row(bool exact, const std::function<void(const OracleRow&, const PackedFixture&)>& check) {
  for (const OracleRow& row : oracle_table()) {
    if (row.exact() != exact) continue;
    CASE(row.fixture, row.experts.value_or(WeightFormat{}), row.dense.value_or(WeightFormat{}), row.only);
    check(row, packed(row));
  }
}

void check_on_devices(const OracleRow& row, const PackedFixture& f) {
  for (const DeviceKind device : devices()) {
    if (emulated(device) && !row.exact() && !kOfTypes.contains(row.fixture)) continue;
    if (row.activations == ActivationFormat::kF32 || device == DeviceKind::kCpu) check_row(row, f, device);
  }
}

TEST_CASE("oracle: every model in f32 answers as transformers does, at every budget, in one pass and in chunks") {
  each_row(true, check_on_devices);
}

TEST_CASE("oracle: packed types stay within their bounds, with the same bits at every budget") {
  each_row(false, check_on_devices);
}

/// Writes a pack of DeepSeek-V3's checkpoint under the name of another family.
void write_renamed(const std::string& from, const std::string& to, const std::string& family) {
  const TempDir renamed;
  std::filesystem::copy(from, renamed.path(), std::filesystem::copy_options::recursive);
  const std::string config = renamed.path() + "/config.json", own = "\"deepseek_v3\"";
  std::string text = read_text_file(config);
  std::ofstream(config) << text.replace(text.find(own), own.size(), "\"" + family + "\"");
  write_pack(renamed.path(), to, kF32Format, kF32Format);
}

TEST_CASE("oracle: GLM-4.7-Flash is the arithmetic of DeepSeek-V3, as in transformers") {
  const PackedFixture f("deepseek-v3-tiny", [](const std::string& from, const std::string& to) {
    write_renamed(from, to, "glm4_moe_lite");
  });
  CHECK(read_text_file(f.pack.path() + "/config.json").find("\"glm4_moe_lite\"") != std::string::npos);
  check_row({"deepseek-v3-tiny"}, f, DeviceKind::kCpu);
}

TEST_CASE("mixed packs: loads are counted with the bytes of their own blocks") {
  const PackedFixture f("switch-tiny-capacity4", write_mixed);
  const Pack pack = open_pack(f.pack.path());
  uint64_t all = 0, largest = 0;
  for (ExpertId id = 0; id < pack.experts.experts(); ++id) {
    all += pack.experts.block_bytes(id);
    largest = std::max(largest, pack.experts.block_bytes(id));
  }
  CHECK(pack.experts.slot_bytes == largest);
  CHECK(all < largest * pack.experts.experts());
  CHECK(File::open(pack.expert_path()).size() == all);
  Engine engine = f.open();
  // One slot always stays unpinned.
  std::vector<ExpertId> pinned(pack.experts.experts() - 1);
  std::iota(pinned.begin(), pinned.end(), 0);
  engine.store().pin(pinned, true);
  CHECK(engine.store().take_stats().bytes_moved == all - pack.experts.block_bytes(pack.experts.experts() - 1));
}

TEST_CASE("predicted routing: the routers' own choice gives the bits of exact mode") {
  each_row(true, [](const OracleRow& row, const PackedFixture& f) {
    if (!row.fixture.starts_with("switch")) return;
    for (const DeviceKind device : devices()) {
      if (emulated(device) && row.fixture != "switch-tiny-capacity4") continue;
      const BatchLimits with_routers = limits_on(device, {320, 1024, 2, 3});
      const BatchLimits tables_alone = limits_on(device, {320, 1024, 2, 1, false});
      // Where alpha comes from the CPU's softmax and not the GPU's, its last bits may differ.
      const auto check_same = [&](const std::vector<float>& found, const std::vector<float>& expected) {
        CHECK((device == DeviceKind::kCpu ? same_bits(found, expected) : relative_error(found, expected) < 1e-5));
      };
      for (const double share : shares_on(device)) {
        Engine exact = f.open(with_routers, share), without_routers = f.open(tables_alone, share);
        for (const Case& c : f.list) {
          CASE(device_name(device), share, c.prefix);
          const auto both = [&](Engine& engine, const Table& encoder, const Table& decoder) {
            Batch encode = pass_of(0, c.ids, c.offsets, c.tokens);
            encode.routing = encoder.view();
            Batch decode = pass_of(1, c.decoder_ids, c.decoder_offsets, c.decoder_tokens, c.ids);
            decode.routing = decoder.view();
            decode.logit_rows = c.rows;
            std::pair<Run, Run> out{run(engine, encode), run(engine, decode)};
            engine.release_sequences(c.decoder_ids);
            engine.release_sequences(c.ids);
            return out;
          };
          const Table none{{}, {}, 0};
          const auto [encoded, decoded] = both(exact, none, none);
          const size_t experts = exact.spec().experts();
          for (Engine* engine : {&exact, &without_routers}) {
            const auto [by_table, decoded_by_table] =
                both(*engine, table_of(encoded, experts), table_of(decoded, experts));
            check_same(by_table.hidden, encoded.hidden);
            CHECK(by_table.dispatch == encoded.dispatch);
            check_same(decoded_by_table.hidden, decoded.hidden);
            check_same(decoded_by_table.logits, decoded.logits);
            CHECK(decoded_by_table.dispatch == decoded.dispatch);
          }
        }
        CHECK(without_routers.memory().peak() <= without_routers.memory().budget());
      }
    }
  });
}

}  // namespace
