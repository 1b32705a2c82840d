#include "spec/quantization_config.h"

#include <string>

namespace sida {
namespace {

// Larger than any matrix.
constexpr int kMaxBlock = 1 << 24;

Fp8Block read_block(const ConfigReader& fp8) {
  const char* const name = "weight_block_size";
  const char* const wanted = "the rows and columns of a block, such as [128, 128]";
  if (fp8.is_null(name)) throw fp8.fault(name, wanted, "null", "one scale for a whole matrix is not supported");
  const auto sizes = fp8.integers(name, 1, kMaxBlock, 2);
  if (!sizes) return {};
  if (sizes->size() != 2) throw fp8.fault(name, wanted, std::to_string(sizes->size()) + " numbers", "");
  return {static_cast<uint64_t>((*sizes)[0]), static_cast<uint64_t>((*sizes)[1])};
}

}  // namespace

std::optional<Fp8Block> read_quantization(const ConfigReader& config) {
  const auto quantization = config.object("quantization_config");
  if (!quantization) return std::nullopt;
  const auto method = quantization->choice("quant_method", {"mxfp4", "fp8"});
  if (!method || *method == 0) return std::nullopt;
  quantization->require_text("fmt", "e4m3", "other formats of FP8 are not supported");
  quantization->require_text("activation_scheme", "dynamic", "scales of activations are not read");
  // What the scales are rounded to; both are stored as numbers.
  quantization->choice("scale_fmt", {"float", "ue8m0"});
  return read_block(*quantization);
}

}  // namespace sida
