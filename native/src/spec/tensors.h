#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace sida {

/// What a tensor is in its model.
enum class TensorRole : uint8_t {
  kEmbedding,
  kEmbeddingBias,  ///< of all tokens
  kPositionBias,
  kAttentionNorm,
  kAttentionNormBias,
  kAttentionPostNorm,
  kQueryDown,  ///< the first of two query projections
  kQueryDownBias,
  kQueryDownNorm,
  kQuery,
  kQueryBias,
  kKey,
  kKeyBias,
  kValue,
  kValueBias,
  kAttentionOutput,
  kAttentionOutputBias,
  kSinks,
  kOutputGate,
  kBeta,  ///< of a delta rule, as all up to kDeltaNorm
  kDecay,
  kDecayBias,
  kDecayRate,
  kQueryTaps,  ///< of the convolution, (columns, taps)
  kKeyTaps,
  kValueTaps,
  kDeltaNorm,
  kLatent,
  kLatentBias,
  kLatentRotary,
  kLatentRotaryBias,
  kLatentNorm,
  kLatentKey,    ///< of a head, transposed: (rank, columns of its query that are not rotated)
  kLatentValue,  ///< of a head
  kQueryNorm,
  kKeyNorm,
  kCrossNorm,
  kCrossNormBias,
  kCrossQuery,
  kCrossQueryBias,
  kCrossKey,
  kCrossKeyBias,
  kCrossValue,
  kCrossValueBias,
  kCrossOutput,
  kCrossOutputBias,
  kFeedForwardNorm,
  kFeedForwardNormBias,
  kFeedForwardPostNorm,
  kLayerScale,
  kGate,  ///< gated activations alone
  kGateBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kRouter,
  kRouterBias,
  kRouterCorrection,
  kMoeBias,  ///< of the chosen experts' sum
  kRouterInputScale,
  kExpertFactors,  ///< (experts)
  kSharedPostNorm,
  kExpertsNorm,
  kExpertsPostNorm,
  kSharedGate,  ///< gated activations alone
  kSharedGateBias,
  kSharedUp,
  kSharedUpBias,
  kSharedDown,
  kSharedDownBias,
  kSharedOutputGate,
  kSharedOutputGateBias,
  kExpertGate,  ///< gated activations alone
  kExpertGateBias,
  kExpertUp,
  kExpertUpBias,
  kExpertDown,
  kExpertDownBias,
  kFinalNorm,
  kFinalNormBias,
  kHead,
};

/// How a pack holds it.
enum class TensorForm : uint8_t {
  kMatrix,  ///< panels of the dense element type
  kRouter,  ///< panels of f32; may be left off the device
  kGate,    ///< panels of f32
  kRows,    ///< f32 as in the checkpoint
  kExpert,  ///< a matrix of an expert's block
};

/// The place of one tensor in a model.
struct TensorSlot {
  TensorRole role;
  TensorForm form;
  size_t stack = 0;
  size_t layer = 0;   ///< inside the stack
  size_t expert = 0;  ///< inside the layer; of kLatentKey and kLatentValue the head
  std::vector<uint64_t> shape;

  /// The name inside a pack: "decoder.3.query", "embedding" (shared by all stacks), "encoder.embedding",
  /// "decoder.3.expert.7.up".
  std::string label(const ModelSpec& spec) const;
};

/// Visits all tensors of a model, in the order of the dense file. Checks, layouts, views and packing all use this list.
void for_each_slot(const ModelSpec& spec, const std::function<void(const TensorSlot&)>& visit);
/// The same without the matrices of experts.
void for_each_dense_slot(const ModelSpec& spec, const std::function<void(const TensorSlot&)>& visit);

/// The matrices of one expert of a layer, in the order of its block.
std::vector<TensorSlot> expert_slots(const ModelSpec& spec, size_t stack, size_t layer, size_t expert);

}  // namespace sida
