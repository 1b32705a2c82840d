#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "predictor/predictor_config.h"

namespace sida {

/// The tensors of a predictor in the order of the flat buffer. Weights are (out, in), row-major; the rows of
/// the LSTM's are its gates i, f, g, o.
enum class PredictorPart : uint8_t {
  kCompressWeight,     ///< (h, d_in)
  kCompressBias,       ///< (h)
  kSummaryWeight,      ///< (h, d_in); empty without a summary
  kLstm0Input,         ///< (4u, h), u = h units; h / 2 where the LSTM is bidirectional
  kLstm0Hidden,        ///< (4u, u)
  kLstm0Bias,          ///< (4u)
  kLstm0ReverseInput,  ///< of the LSTM that runs backward; empty where there is none, as the next two
  kLstm0ReverseHidden,
  kLstm0ReverseBias,
  kLstm1Input,  ///< of the second LSTM layer; empty where there is one, as the next five
  kLstm1Hidden,
  kLstm1Bias,
  kLstm1ReverseInput,
  kLstm1ReverseHidden,
  kLstm1ReverseBias,
  kResidualWeight,  ///< (h, h)
  kResidualBias,    ///< (h)
  kHeadWeight,      ///< (layers, experts, h)
  kHeadBias,        ///< (layers, experts)
  // Residual blocks; empty without them. A norm's scale is 1 + gain.
  kFinalNorm,             ///< (h)
  kBlockAttentionNorm,    ///< (h); of block 0, as the following
  kBlockQkv,              ///< (3h, h)
  kBlockPositions,        ///< (heads, kPositionBuckets)
  kBlockAttentionOut,     ///< (h, h)
  kBlockFeedForwardNorm,  ///< (h)
  kBlockFeedForwardUp,    ///< (2h, h)
  kBlockFeedForwardBias,  ///< (2h)
  kBlockFeedForwardDown,  ///< (h, 2h)
};
inline constexpr size_t kPredictorBlockParts = 8;
inline constexpr size_t kPredictorParts =
    static_cast<size_t>(PredictorPart::kBlockAttentionNorm) + kMaxPredictorBlocks * kPredictorBlockParts;

/// The part of block `block` that corresponds to `part` of block 0.
constexpr PredictorPart block_part(PredictorPart part, size_t block) {
  return static_cast<PredictorPart>(static_cast<size_t>(part) + block * kPredictorBlockParts);
}

/// The parts of LSTM `layer` in a direction: input, hidden and bias.
struct LstmParts {
  PredictorPart input;
  PredictorPart hidden;
  PredictorPart bias;
};
LstmParts lstm_parts(size_t layer, size_t direction);

struct PredictorTensor {
  std::string name;
  std::vector<uint64_t> shape;
  size_t offset = 0;  ///< in floats, from the beginning of the buffer
  size_t count = 0;   ///< 0 where the predictor lacks the tensor
};

/// Where each tensor lies in a flat buffer. Gradients and optimizer moments have the same layout.
class PredictorLayout {
 public:
  /// Checks the config.
  explicit PredictorLayout(const PredictorConfig& config);

  const PredictorConfig& config() const { return config_; }
  const std::array<PredictorTensor, kPredictorParts>& tensors() const { return tensors_; }
  const PredictorTensor& tensor(PredictorPart part) const { return tensors_[static_cast<size_t>(part)]; }
  size_t offset(PredictorPart part) const { return tensor(part).offset; }
  /// Floats of the whole buffer.
  size_t count() const { return tensors_.back().offset + tensors_.back().count; }

 private:
  PredictorConfig config_;
  std::array<PredictorTensor, kPredictorParts> tensors_;
};

/// The weights of one predictor.
struct PredictorWeights {
  /// All zero.
  explicit PredictorWeights(const PredictorConfig& config) : layout(config), values(layout.count()) {}

  /// Uniform in ±1/sqrt(fan-in); biases zero, but one for the forget gates. The same seed gives the same bits
  /// on every machine.
  void initialize(uint64_t seed);

  float* at(PredictorPart part) { return values.data() + layout.offset(part); }
  const float* at(PredictorPart part) const { return values.data() + layout.offset(part); }

  PredictorLayout layout;
  std::vector<float> values;
};

}  // namespace sida
