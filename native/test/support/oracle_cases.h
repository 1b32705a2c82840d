#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors_file.h"
#include "doctest/doctest.h"
#include "support/test_pack.h"

namespace sida::testing {

/// Tensors of a fixture's cases.
class Cases {
 public:
  explicit Cases(const std::string& directory)
      : file_(SafetensorsFile::open(directory + "/cases.safetensors")) {}

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

 private:
  const TensorInfo* find(const std::string& name) const {
    for (const TensorInfo& info : file_.tensors()) {
      if (info.name == name) return &info;
    }
    return nullptr;
  }
  SafetensorsFile file_;
};

/// Inputs of a case: sequences without the padding that the reference has in rows of `length` tokens. What padding
/// would do is nothing: it stands behind what it could touch.
struct Inputs {
  size_t batch, length;
  std::vector<int32_t> tokens, offsets, ids;

  /// Rows of a reference (batch, length, width) that are no padding.
  template <class T>
  std::vector<T> real_rows(const std::vector<T>& reference) const {
    const size_t width = reference.size() / (batch * length);
    std::vector<T> rows;
    for (size_t b = 0; b < batch; ++b) {
      const auto first = reference.begin() + static_cast<long>(b * length * width);
      rows.insert(rows.end(), first, first + static_cast<long>(width) * (offsets[b + 1] - offsets[b]));
    }
    return rows;
  }
};

inline Inputs inputs_of(const Cases& cases, const std::string& prefix) {
  const auto shape = cases.shape(prefix + "input_ids");
  Inputs in{shape[0], shape[1], {}, {0}, {}};
  const auto tokens = cases.read<int64_t>(prefix + "input_ids");
  const std::string mask_name = prefix + "attention_mask";
  const auto mask = cases.has(mask_name) ? cases.read<int64_t>(mask_name) : std::vector<int64_t>(tokens.size(), 1);
  for (size_t b = 0; b < in.batch; ++b) {
    for (size_t i = b * in.length; i < (b + 1) * in.length; ++i) {
      if (mask[i] != 0) in.tokens.push_back(static_cast<int32_t>(tokens[i]));
    }
    in.offsets.push_back(static_cast<int32_t>(in.tokens.size()));
    in.ids.push_back(static_cast<int32_t>(b));
  }
  return in;
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

/// Decoder tokens of a case, all rows of logits wanted; sequences count from 100.
struct DecoderInputs {
  std::vector<int32_t> tokens, offsets, rows, sequences;

  Batch after(const std::vector<int32_t>& parents) const {
    Batch batch = pass_of(1, sequences, offsets, tokens, parents);
    batch.logit_rows = rows;
    return batch;
  }
};

inline DecoderInputs decoder_inputs_of(const Cases& cases, const std::string& prefix, size_t batch) {
  const auto ids = cases.read<int64_t>(prefix + "decoder_input_ids");
  DecoderInputs in{{ids.begin(), ids.end()}, {0}, {}, {}};
  for (size_t b = 0; b < batch; ++b) {
    in.offsets.push_back(static_cast<int32_t>((b + 1) * ids.size() / batch));
    in.sequences.push_back(static_cast<int32_t>(100 + b));
  }
  for (size_t i = 0; i < ids.size(); ++i) in.rows.push_back(static_cast<int32_t>(i));
  return in;
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
  return out;
}

/// Largest difference over the largest magnitude of the reference.
inline double relative_error(const std::vector<float>& found, const std::vector<float>& expected) {
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - expected[i]));
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
    if (std::isnan(found[i])) return INFINITY;
  }
  return worst / scale;
}

/// Greedy continuation of `parent` by a sequence of the last stack that begins with `first`, until an end token or
/// after `steps`; `first` included.
inline std::vector<int32_t> greedy(Engine& engine, int32_t parent, int32_t first, size_t steps) {
  const std::vector<int32_t> end = engine.spec().tokens.end;
  const std::vector<int32_t> sequence{1000}, parents{parent}, offsets{0, 1};
  std::vector<int32_t> ids{first};
  for (size_t step = 0; step < steps; ++step) {
    const std::vector<int32_t> token{ids.back()};
    Batch batch = pass_of(engine.spec().stacks.size() - 1, sequence, offsets, token, parents);
    const Pick pick{0, {}, 0};
    batch.picks = {&pick, 1};
    ids.push_back(run(engine, batch).picked[0].id);
    if (std::find(end.begin(), end.end(), ids.back()) != end.end()) break;
  }
  engine.release_sequences(sequence);
  return ids;
}

}  // namespace sida::testing
