#include "predictor/predictor_weights.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.h"

namespace sida {
namespace {

constexpr size_t kMaxWidth = 1 << 16;
constexpr size_t kMaxHidden = 1 << 13;
constexpr size_t kMaxLayers = 512;
constexpr size_t kMaxExperts = 65535;
constexpr size_t kMaxHeads = 1 << 18;  // layers × experts

void check_range(const char* name, size_t value, size_t most) {
  if (value >= 1 && value <= most) return;
  throw Error("invalid_request",
              "Expected the predictor's \"" + std::string(name) + "\" to be from 1 to " +
                  std::to_string(most) + ", found " + std::to_string(value),
              {{"most", static_cast<double>(most)}, {"found", static_cast<double>(value)}});
}

// A double in [-1, 1) from 53 bits: the standard's distributions differ between libraries.
double symmetric(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * (2.0 / 9007199254740992.0) - 1.0;
}

}  // namespace

void PredictorConfig::check() const {
  check_range("d_in", d_in, kMaxWidth);
  check_range("hidden", hidden, kMaxHidden);
  check_range("layers", layers, kMaxLayers);
  check_range("experts", experts, kMaxExperts);
  check_range("layers × experts", layers * experts, kMaxHeads);
  if (bidirectional || positions) {
    throw Error("invalid_request", "This build knows no bidirectional predictors and no position inputs");
  }
}

PredictorLayout::PredictorLayout(const PredictorConfig& config) : config_(config) {
  config.check();
  const uint64_t h = config.hidden;
  size_t next = 0;
  size_t offset = 0;
  const auto add = [&](const char* name, std::vector<uint64_t> shape, bool present = true) {
    size_t count = present ? 1 : 0;
    for (const uint64_t size : shape) count *= size;
    tensors_[next++] = {name, std::move(shape), offset, count};
    offset += count;
  };
  add("compress.weight", {h, config.d_in});
  add("compress.bias", {h});
  add("summary.weight", {h, config.d_in}, config.summary);
  add("lstm.0.input.weight", {4 * h, h});
  add("lstm.0.hidden.weight", {4 * h, h});
  add("lstm.0.bias", {4 * h});
  add("lstm.1.input.weight", {4 * h, h});
  add("lstm.1.hidden.weight", {4 * h, h});
  add("lstm.1.bias", {4 * h});
  add("residual.weight", {h, h});
  add("residual.bias", {h});
  add("heads.weight", {config.layers, config.experts, h});
  add("heads.bias", {config.layers, config.experts});
}

void PredictorWeights::initialize(uint64_t seed) {
  std::mt19937_64 random(seed);
  const size_t h = layout.config().hidden;
  for (const PredictorTensor& tensor : layout.tensors()) {
    float* out = values.data() + tensor.offset;
    const bool bias = tensor.name.ends_with(".bias");
    const double bound = bias ? 0 : 1 / std::sqrt(static_cast<double>(tensor.shape.back()));
    for (size_t i = 0; i < tensor.count; ++i) out[i] = static_cast<float>(bound * symmetric(random));
  }
  for (const PredictorPart part : {PredictorPart::kLstm0Bias, PredictorPart::kLstm1Bias}) {
    std::fill_n(at(part) + h, h, 1.0f);
  }
}

}  // namespace sida
