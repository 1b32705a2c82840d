#pragma once

#include <optional>
#include <string>

#include "predictor/adamw.h"
#include "predictor/predictor_weights.h"

namespace sida {

/// A predictor in a directory:
///   predictor.json                 config, and the sha256 of the files beside it
///   predictor-<sha>.safetensors    weights, float32, names and shapes of PredictorLayout
///   optimizer-<sha>.safetensors    where training can be resumed: "mean." and "square." + those names
/// The weights are named compress.weight, compress.bias, position.weight, summary.weight,
/// lstm.<0|1>.<input.weight|hidden.weight|bias>, the same with lstm.<0|1>.reverse, residual.weight,
/// residual.bias, heads.weight, heads.bias, norm.gain and, of each block,
/// block.<n>.attention.<norm.gain|qkv.weight|position.bias|out.weight> and
/// block.<n>.ffn.<norm.gain|in.weight|in.bias|out.weight>; those that a predictor lacks are absent.
/// <sha> is the first 16 digits. A save takes effect when predictor.json is renamed, so a crash leaves either the old
/// or the new predictor.
struct PredictorCheckpoint {
  PredictorWeights weights;
  std::optional<AdamWState> optimizer;
};

/// The directory must exist. `optimizer` may be null. Throws io_error.
void save_predictor(const std::string& directory, const PredictorWeights& weights, const AdamWState* optimizer);

/// Throws checkpoint_invalid where something is missing, of the wrong shape, damaged or not finite, and io_error.
/// `with_optimizer`: also reads the optimizer's state where the directory has it.
PredictorCheckpoint load_predictor(const std::string& directory, bool with_optimizer);

}  // namespace sida
