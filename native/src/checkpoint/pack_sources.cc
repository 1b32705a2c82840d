#include "checkpoint/pack_sources.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/checkpoint_error.h"
#include "ops/panels.h"

namespace sida {

const TensorInfo& dense_source(const Checkpoint& checkpoint, const DenseTensor& tensor) {
  if (tensor.name == "shared.weight" || tensor.name == "encoder.embed_tokens.weight") {
    return checkpoint.encoder_embedding();
  }
  if (tensor.name == "decoder.embed_tokens.weight") return checkpoint.decoder_embedding();
  if (tensor.name == "lm_head.weight") return checkpoint.head();
  return checkpoint.require(tensor.name, tensor.shape);
}

std::vector<ExpertSource> expert_sources(const Checkpoint& checkpoint, const Pack& pack, ExpertId id) {
  const ExpertLayout& layout = pack.experts;
  const std::string moe_layer = pack.config.moe_layers().at(id / layout.experts_per_layer);
  const size_t dot = moe_layer.find('.');
  const std::string stack = moe_layer.substr(0, dot);
  const std::string prefix = stack + ".block." + moe_layer.substr(dot + 1) + ".layer." +
                             (stack == "decoder" ? "2" : "1") + ".mlp.experts.expert_" +
                             std::to_string(id % layout.experts_per_layer) + ".";
  const auto source = [&](const char* name, uint64_t offset, size_t n, size_t k) {
    return ExpertSource{name, checkpoint.require(prefix + name + ".weight", {n, k}), offset, n, k};
  };
  return {source("wi", layout.wi_offset, layout.d_ff, layout.d_model),
          source("wo", layout.wo_offset, layout.d_model, layout.d_ff)};
}

std::string expert_name(const Pack& pack, ExpertId id) {
  return pack.config.moe_layers().at(id / pack.experts.experts_per_layer) + " expert " +
         std::to_string(id % pack.experts.experts_per_layer);
}

void read_rows(const Checkpoint& checkpoint, const TensorInfo& tensor, uint64_t row, uint64_t rows,
               uint64_t k, WeightFormat format, std::vector<float>& out) {
  out.resize(rows * k);
  checkpoint.read_f32(tensor, row * k, rows * k, out.data());
  if (!quantized(format)) return;
  const auto bad = std::find_if(out.begin(), out.end(), [](float value) { return !std::isfinite(value); });
  if (bad == out.end()) return;
  const auto at = static_cast<uint64_t>(bad - out.begin());
  throw checkpoint_error(
      {checkpoint.files()[tensor.file].display(),
       tensor.name,
       "cannot be quantized: row " + std::to_string(row + at / k) + ", column " + std::to_string(at % k),
       "a finite number",
       std::isnan(*bad) ? "NaN" : "infinity",
       "pack it as f32 or bf16",
       {}});
}

uint64_t rows_at_a_time(uint64_t k) {
  return std::max<uint64_t>(1, (4 << 20) / (k * kPanelColumns * sizeof(float))) * kPanelColumns;
}

}  // namespace sida
