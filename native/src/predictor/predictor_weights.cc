#include "predictor/predictor_weights.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"
#include "predictor/head_attention.h"

namespace sida {
namespace {

constexpr size_t kMaxInputs = 1 << 16;
constexpr size_t kMaxHidden = 1 << 13;
constexpr size_t kMaxLayers = 512;
constexpr size_t kMaxExperts = 65535;
constexpr size_t kMaxHeads = 1 << 18;  // layers × experts

void check_range(const char* name, size_t value, size_t most) {
  if (value >= 1 && value <= most) return;
  throw Error("invalid_request",
              "Expected the predictor's \"" + std::string(name) + "\" to be from 1 to " + std::to_string(most) +
                  ", found " + std::to_string(value),
              {{"most", static_cast<double>(most)}, {"found", static_cast<double>(value)}});
}

// A double in [-1, 1) from 53 bits. The distributions of <random> differ between libraries.
double symmetric(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * (2.0 / 9007199254740992.0) - 1.0;
}

}  // namespace

void PredictorConfig::check() const {
  check_range("d_in", d_in, kMaxInputs);
  check_range("hidden", hidden, kMaxHidden);
  check_range("layers", layers, kMaxLayers);
  check_range("experts", experts, kMaxExperts);
  check_range("layers × experts", layers * experts, kMaxHeads);
  check_range("lstm_layers", lstm_layers, kMaxLstmLayers);
  if (blocks > 0) {
    check_range("blocks", blocks, kMaxPredictorBlocks);
    if (hidden % kHeadWidth != 0) {
      throw Error("invalid_request",
                  "Expected the \"hidden\" of a predictor with blocks to be a multiple of " +
                      std::to_string(kHeadWidth) + ", found " + std::to_string(hidden),
                  {{"found", static_cast<double>(hidden)}});
    }
    if (bidirectional) throw Error("invalid_request", "A predictor with blocks has no LSTMs to be bidirectional");
  }
  if (!bidirectional) return;
  if (causal) {
    throw Error("invalid_request", "A causal predictor cannot be bidirectional: it sees no later tokens");
  }
  if (hidden % 2 != 0) {
    throw Error("invalid_request",
                "Expected a bidirectional predictor's \"hidden\" to be even, found " + std::to_string(hidden),
                {{"found", static_cast<double>(hidden)}});
  }
}

LstmParts lstm_parts(size_t layer, size_t direction) {
  const auto first = static_cast<size_t>(PredictorPart::kLstm0Input) + 6 * layer + 3 * direction;
  return {static_cast<PredictorPart>(first), static_cast<PredictorPart>(first + 1),
          static_cast<PredictorPart>(first + 2)};
}

PredictorLayout::PredictorLayout(const PredictorConfig& config) : config_(config) {
  config.check();
  const uint64_t h = config.hidden;
  size_t next = 0;
  size_t offset = 0;
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape, bool present = true) {
    size_t count = present ? 1 : 0;
    for (const uint64_t size : shape) count *= size;
    tensors_[next++] = {name, std::move(shape), offset, count};
    offset += count;
  };
  add("compress.weight", {h, config.d_in});
  add("compress.bias", {h});
  add("summary.weight", {h, config.d_in}, config.summary);
  const uint64_t units = config.units();
  const bool recurrent = config.kind() == NetworkKind::kLstm;
  for (size_t layer = 0; layer < kMaxLstmLayers; ++layer) {
    const std::string name = "lstm." + std::to_string(layer);
    for (const char* direction : {".", ".reverse."}) {
      const bool present = recurrent && layer < config.lstm_layers && (config.bidirectional || direction[1] == '\0');
      add(name + direction + "input.weight", {4 * units, h}, present);
      add(name + direction + "hidden.weight", {4 * units, units}, present);
      add(name + direction + "bias", {4 * units}, present);
    }
  }
  add("residual.weight", {h, h}, recurrent);
  add("residual.bias", {h}, recurrent);
  add("heads.weight", {config.layers, config.experts, h});
  add("heads.bias", {config.layers, config.experts});
  add("norm.gain", {h}, !recurrent);
  for (size_t block = 0; block < kMaxPredictorBlocks; ++block) {
    const std::string name = "block." + std::to_string(block);
    const bool present = block < config.blocks;
    add(name + ".attention.norm.gain", {h}, present);
    add(name + ".attention.qkv.weight", {3 * h, h}, present);
    add(name + ".attention.position.bias", {h / kHeadWidth, kPositionBuckets}, present);
    add(name + ".attention.out.weight", {h, h}, present);
    add(name + ".ffn.norm.gain", {h}, present);
    add(name + ".ffn.in.weight", {2 * h, h}, present);
    add(name + ".ffn.in.bias", {2 * h}, present);
    add(name + ".ffn.out.weight", {h, 2 * h}, present);
  }
}

void PredictorWeights::initialize(uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const PredictorTensor& tensor : layout.tensors()) {
    float* out = values.data() + tensor.offset;
    const bool zero = tensor.name.ends_with(".bias") || tensor.name.ends_with(".gain");
    const double bound = zero ? 0 : 1 / std::sqrt(static_cast<double>(tensor.shape.back()));
    for (size_t i = 0; i < tensor.count; ++i) out[i] = static_cast<float>(bound * symmetric(random));
  }
  if (layout.config().kind() == NetworkKind::kAttention) return;
  const size_t units = layout.config().units();
  for (size_t layer = 0; layer < layout.config().lstm_layers; ++layer) {
    for (size_t direction = 0; direction < layout.config().directions(); ++direction) {
      std::fill_n(at(lstm_parts(layer, direction).bias) + units, units, 1.0f);
    }
  }
}

}  // namespace sida
