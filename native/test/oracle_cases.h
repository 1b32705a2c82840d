#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "doctest/doctest.h"
#include "test_pack.h"

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

/// Inputs of a case in rows of `length` tokens; `attended` counts those that are no padding.
struct Inputs {
  size_t batch, length;
  std::vector<int32_t> tokens, offsets, attended, ids;
};

inline Inputs inputs_of(const Cases& cases, const std::string& prefix) {
  const auto shape = cases.shape(prefix + "input_ids");
  Inputs in{shape[0], shape[1], {}, {0}, {}, {}};
  const auto tokens = cases.read<int64_t>(prefix + "input_ids");
  const auto mask = cases.read<int64_t>(prefix + "attention_mask");
  in.tokens.assign(tokens.begin(), tokens.end());
  for (size_t b = 0; b < in.batch; ++b) {
    in.offsets.push_back(static_cast<int32_t>((b + 1) * in.length));
    in.attended.push_back(
        static_cast<int32_t>(std::count(mask.begin() + static_cast<long>(b * in.length),
                                        mask.begin() + static_cast<long>((b + 1) * in.length), 1)));
    in.ids.push_back(static_cast<int32_t>(b));
  }
  return in;
}

/// Decoder tokens of a case, all rows of logits wanted; sequences count from 100.
struct DecoderInputs {
  std::vector<int32_t> tokens, offsets, rows, sequences;
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
};

/// One pass with everything it can report.
inline Run run(Engine& engine, const Batch& batch) {
  const size_t tokens = batch.tokens.size();
  const auto layers = engine.moe_layers(batch.phase).second;
  const auto experts = static_cast<size_t>(engine.config().num_experts);
  Run out;
  out.hidden.resize(tokens * static_cast<size_t>(engine.config().d_model));
  const size_t k = std::max<size_t>(batch.routing.k, 1);
  if (batch.routing.k == 0) out.router.resize(layers * tokens * experts);
  out.dispatch.resize(layers * tokens * k);
  out.found.resize(layers * experts);
  out.logits.resize(batch.logit_rows.size() * static_cast<size_t>(engine.config().vocab_size));
  engine.run(batch, {},
             {batch.phase == Phase::kDecode ? out.logits.data() : nullptr, out.hidden.data(),
              batch.routing.k == 0 ? out.router.data() : nullptr, out.dispatch.data(), out.found.data()});
  engine.store().check_integrity();
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

/// Greedy continuation of one context, until the end token or after `steps`.
inline std::vector<int32_t> greedy(Engine& engine, const std::vector<int32_t>& contexts, size_t batch_row,
                                   size_t steps) {
  const SwitchConfig& config = engine.config();
  const std::vector<int32_t> sequence{static_cast<int32_t>(1000 + batch_row)};
  const std::vector<int32_t> context{contexts[batch_row]};
  const std::vector<int32_t> offsets{0, 1}, rows{0};
  std::vector<int32_t> ids{config.decoder_start_token_id};
  for (size_t step = 0; step < steps; ++step) {
    const std::vector<int32_t> token{ids.back()};
    Batch batch{Phase::kDecode, sequence, context, offsets, token, rows, {}};
    const Run out = run(engine, batch);
    ids.push_back(
        static_cast<int32_t>(std::max_element(out.logits.begin(), out.logits.end()) - out.logits.begin()));
    if (ids.back() == config.eos_token_id) break;
  }
  engine.release_sequences(sequence);
  return ids;
}

}  // namespace sida::testing
