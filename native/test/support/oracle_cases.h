#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_file.h"
#include "core/json.h"
#include "support/devices.h"
#include "support/driver_memory.h"
#include "support/test_pack.h"

namespace sida::testing {

inline constexpr const char* kDecoderFixtures[] = {
    "olmoe-tiny",    "mixtral-tiny",          "qwen2-moe-tiny",   "qwen3-moe-tiny",  "gpt-oss-tiny",
    "glm4-moe-tiny", "deepseek-v2-lite-tiny", "deepseek-v3-tiny", "qwen3-next-tiny", "qwen3-5-moe-tiny",
    "gemma4-tiny"};

/// Tensors of a fixture's cases.
class Cases {
 public:
  explicit Cases(const std::string& directory) : file_(SafetensorsFile::open(directory + "/cases.safetensors")) {}

  bool has(const std::string& name) const { return find(name) != nullptr; }
  std::vector<uint64_t> shape(const std::string& name) const { return find(name)->shape; }
  template <class T>
  std::vector<T> read(const std::string& name) const {
    const TensorInfo& info = *find(name);
    REQUIRE(info.bytes == info.elements() * sizeof(T));
    std::vector<T> out(info.elements());
    file_.file().pread_exact(info.offset, out.data(), info.bytes);
    return out;
  }
  std::vector<int32_t> tokens(const std::string& name) const {
    const auto ids = read<int64_t>(name);
    return {ids.begin(), ids.end()};
  }

 private:
  const TensorInfo* find(const std::string& name) const {
    for (const TensorInfo& info : file_.tensors()) {
      if (info.name == name) return &info;
    }
    return nullptr;
  }
  SafetensorsFile file_;
};

inline std::vector<int32_t> ids_of(const JsonValue& list) {
  std::vector<int32_t> ids;
  for (const JsonValue& id : list.elements()) ids.push_back(static_cast<int32_t>(id.as_i64()));
  return ids;
}

/// A case of a fixture. Sequences count from 0, those of a decoder behind an encoder from 100; they are without the
/// padding that the reference has in rows of `length` tokens. What padding would do is nothing: it stands behind what
/// it could touch.
struct Case {
  std::string prefix;
  size_t batch = 1, length = 0;
  std::vector<int32_t> tokens, offsets{0}, ids;
  std::vector<int32_t> decoder_tokens, decoder_offsets{0}, decoder_ids;  ///< none in a decoder-only model
  std::vector<int32_t> rows;                                             ///< of logits: all of the last stack
  std::vector<std::vector<int32_t>>
      greedy;                     ///< continuations by transformers, behind an encoder with their first token
  std::optional<int32_t> forced;  ///< the second token of these

  /// Rows of a reference (batch, length, width) that are no padding.
  template <class T>
  std::vector<T> real_rows(const std::vector<T>& reference) const {
    const size_t width = reference.size() / (batch * length);
    std::vector<T> rows;
    for (size_t b = 0; b < batch; ++b) {
      const auto own = part_of(reference, b * length * width, width * static_cast<size_t>(offsets[b + 1] - offsets[b]));
      rows.insert(rows.end(), own.begin(), own.end());
    }
    return rows;
  }
};

inline Case case_of(const Cases& cases, const JsonValue& entry) {
  Case c;
  c.prefix = entry.at("case").as_string() + ".";
  const auto shape = cases.shape(c.prefix + "input_ids");
  c.batch = shape[0], c.length = shape[1];
  const auto tokens = cases.tokens(c.prefix + "input_ids");
  const std::string mask_name = c.prefix + "attention_mask", decoder_name = c.prefix + "decoder_input_ids";
  const auto mask = cases.has(mask_name) ? cases.read<int64_t>(mask_name) : std::vector<int64_t>(tokens.size(), 1);
  if (cases.has(decoder_name)) c.decoder_tokens = cases.tokens(decoder_name);
  for (size_t b = 0; b < c.batch; ++b) {
    for (size_t i = b * c.length; i < (b + 1) * c.length; ++i) {
      if (mask[i] != 0) c.tokens.push_back(tokens[i]);
    }
    c.offsets.push_back(static_cast<int32_t>(c.tokens.size()));
    c.ids.push_back(static_cast<int32_t>(b));
    c.decoder_offsets.push_back(static_cast<int32_t>((b + 1) * c.decoder_tokens.size() / c.batch));
    c.decoder_ids.push_back(static_cast<int32_t>(100 + b));
  }
  c.rows = first_numbers(c.decoder_tokens.empty() ? c.tokens.size() : c.decoder_tokens.size());
  const JsonValue greedy = entry.at(entry.find("beam1") ? "beam1" : "greedy");
  // A list of lists, or one list of ids.
  for (const JsonValue& line : greedy.elements()) {
    if (line.is_array()) c.greedy.push_back(ids_of(line));
  }
  if (c.greedy.empty()) c.greedy.push_back(ids_of(greedy));
  if (const auto forced = entry.find("forced_bos_token_id")) c.forced = static_cast<int32_t>(forced->as_i64());
  return c;
}

/// A pass of a stack; the caller adds what it asks for.
inline Batch pass_of(size_t stack, const std::vector<int32_t>& sequences, const std::vector<int32_t>& offsets,
                     const std::vector<int32_t>& tokens, const std::vector<int32_t>& parents = {}) {
  Batch batch;
  batch.stack = stack;
  batch.sequences = sequences;
  batch.parents = parents;
  batch.offsets = offsets;
  batch.tokens = tokens;
  return batch;
}

struct Run {
  std::vector<float> hidden, router, logits;  ///< no `router` in a pass with a routing of its own
  std::vector<uint16_t> dispatch;
  std::vector<uint8_t> found;
  std::vector<PickedToken> picked;
  std::vector<RankedToken> top;
  std::vector<double> query_logprobs;
  RunStats stats;
};

/// MoE layers of a stack.
inline size_t moe_layers_of(const Engine& engine, size_t stack) { return engine.spec().stacks[stack].moe_layers(); }

/// One pass with everything it can report.
inline Run run(Engine& engine, const Batch& batch, const ResidencyPlan& plan = {}) {
  const size_t tokens = batch.tokens.size(), layers = moe_layers_of(engine, batch.stack);
  const size_t experts = engine.spec().experts();
  const bool routed = batch.routing.k > 0;
  Run out;
  out.hidden.resize(tokens * engine.spec().width);
  if (!routed) out.router.resize(layers * tokens * experts);
  out.dispatch.resize(layers * tokens * (routed ? batch.routing.k : engine.spec().top_k()));
  out.found.resize(layers * experts);
  out.logits.resize(batch.logit_rows.size() * engine.spec().vocab);
  out.picked.resize(batch.picks.size());
  size_t top = 0;
  for (const Pick& pick : batch.picks) top += pick.top;
  out.top.resize(top);
  out.query_logprobs.resize(batch.queries.size());
  BatchOutput output;
  output.picked = out.picked;
  output.top = out.top;
  output.query_logprobs = out.query_logprobs;
  output.logits = out.logits.empty() ? nullptr : out.logits.data();
  output.hidden_states = out.hidden.data();
  output.router_logits = routed ? nullptr : out.router.data();
  output.dispatch = out.dispatch.data();
  output.found = out.found.data();
  out.stats = engine.run(batch, plan, output);
  engine.check_integrity();
  check_driver_memory(engine);
  return out;
}

/// A pass of one sequence of the last stack, with the logits of all its tokens.
inline Run feed(Engine& engine, int32_t id, const std::vector<int32_t>& tokens, int32_t parent = kNoParent,
                const std::vector<TokenQuery>& queries = {}) {
  const std::vector<int32_t> ids{id}, parents{parent}, offsets{0, static_cast<int32_t>(tokens.size())};
  const std::vector<int32_t> rows = first_numbers(tokens.size());
  const Pick pick{offsets[1] - 1, {}, 0};
  Batch batch = pass_of(engine.spec().stacks.size() - 1, ids, offsets, tokens, parents);
  batch.logit_rows = rows;
  batch.picks = {&pick, 1};
  batch.queries = queries;
  return run(engine, batch);
}

inline void release(Engine& engine, const std::vector<int32_t>& ids) { engine.release_sequences(ids); }

/// Greedy tokens after `given`, up to `count` or an end token.
inline std::vector<int32_t> continuation(Engine& engine, std::vector<int32_t> given, size_t count,
                                         int32_t parent = kNoParent) {
  const std::vector<int32_t> end = engine.spec().tokens.end;
  std::vector<int32_t> ids;
  while (ids.size() < count) {
    ids.push_back(feed(engine, 1000, given, parent).picked[0].id);
    if (std::ranges::find(end, ids.back()) != end.end()) break;
    given = {ids.back()};
  }
  release(engine, {1000});
  return ids;
}

/// Logits of all rows of a prompt that is run in chunks of `chunk` tokens.
inline std::vector<float> logits_in_chunks(Engine& engine, const std::vector<int32_t>& prompt, size_t chunk,
                                           int32_t parent = kNoParent) {
  std::vector<float> logits;
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const Run out = feed(engine, 1, part_of(prompt, begin, std::min(chunk, prompt.size() - begin)), parent);
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  release(engine, {1});
  return logits;
}

inline BatchLimits limits_on(DeviceKind device, BatchLimits limits = {320, 1024, 2}) {
  limits.device = device;
  return limits;
}

/// A fixture, and its pack with these types.
struct PackedFixture {
  std::string directory;
  Cases cases;
  std::vector<Case> list;
  TempDir pack;

  explicit PackedFixture(const std::string& name, WeightFormat experts = kF32Format, WeightFormat dense = kF32Format)
      : PackedFixture(name,
                      [&](const std::string& from, const std::string& to) { write_pack(from, to, experts, dense); }) {}
  PackedFixture(const std::string& name, const std::function<void(const std::string&, const std::string&)>& write)
      : directory(fixture(name)), cases(directory) {
    const auto document = JsonDocument::parse(read_text_file(directory + "/cases.json"), {"cases.json"});
    for (const JsonValue& entry : document.root().elements()) list.push_back(case_of(cases, entry));
    write(directory, pack.path());
  }

  EngineOptions options(const BatchLimits& limits, double share) const {
    return options_for(pack.path(), limits, share);
  }
  Engine open(const BatchLimits& limits = {320, 1024, 2}, double share = 1) const {
    return Engine(options(limits, share));
  }
};

}  // namespace sida::testing
