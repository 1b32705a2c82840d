#pragma once

#include <optional>
#include <vector>

#include "spec/config_reader.h"
#include "spec/spec.h"

namespace sida {

struct RopeDefaults {
  double theta;
  int context;  ///< of max_position_embeddings
  /// The share of a head's columns that are rotated, where a config may say so by `partial_rotary_factor`.
  std::optional<double> partial = {};
  /// The JSON of rope_parameters where a config has neither it nor rope_scaling; null: positions are not scaled.
  const char* scaling = nullptr;
};

/// The frequencies of `width` columns, which are not scaled.
std::vector<float> rope_frequencies(double theta, size_t width);

/// Rotary positions of heads of `head_dim` columns as a config asks for them: by `rope_theta` and `rope_scaling`, or by
/// one `rope_parameters`, of the types default, linear, yarn and llama3 of transformers' modeling_rope_utils. Throws
/// checkpoint_invalid naming a type that is not implemented.
Rope read_rope(const ConfigReader& reader, size_t head_dim, const RopeDefaults& defaults);

/// YaRN's factor of the scores where positions are scaled, by whatever type, and `mscale_all_dim` is given, which
/// DeepSeek squares; 1 otherwise.
double score_factor(const ConfigReader& reader, const RopeDefaults& defaults);

}  // namespace sida
