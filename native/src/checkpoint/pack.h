#pragma once

#include <string>
#include <vector>

#include "checkpoint/pack_formats.h"
#include "core/file.h"
#include "spec/spec.h"
#include "weights/dense_layout.h"
#include "weights/expert_layout.h"

namespace sida {

inline constexpr int kPackVersion = 3;
inline constexpr const char* kDenseFile = "dense.sida";
inline constexpr const char* kExpertFile = "experts.sida";
/// In place of the expert file: a link to the GGUF file in which the experts stay.
inline constexpr const char* kGgufLink = "experts.gguf";

/// A packed model directory: config.json, generation_config.json where the checkpoint has one, manifest.json, the
/// dense file and the expert file (docs/pack-format.md).
struct Pack {
  std::string directory;
  ModelSpec spec;
  PackFormats formats;
  ExpertLayout experts;
  DenseLayout dense;
  std::string gguf = {};  ///< the file in which the experts stay; empty: they are in a file of the pack

  std::string dense_path() const { return directory + "/" + kDenseFile; }
  std::string expert_path() const { return gguf.empty() ? directory + "/" + kExpertFile : gguf; }
  /// Throws io_error, and checkpoint_invalid where the dense file is missing or no regular file of this directory.
  File open_dense() const;
};

/// Layouts of a model with these element types.
Pack describe_pack(std::string directory, ModelSpec spec, PackFormats formats);
Pack describe_pack(std::string directory, ModelSpec spec, WeightFormat experts, WeightFormat dense);

/// Reads a pack's manifest and configs, but no weights, and checks that they agree. Throws io_error, pack_invalid or,
/// where a config is invalid, checkpoint_invalid.
Pack open_pack(const std::string& directory);

}  // namespace sida
