// GGUF files of models, opened as checkpoints.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "support/gguf_builder.h"
#include "support/safetensors_builder.h"

namespace sida::testing {

/// Sizes of the small models.
constexpr uint64_t kWidth = 8, kHidden = 4, kVocab = 6, kExperts = 2;

/// Opens the file and checks its tensors.
inline Checkpoint open(const GgufBuilder& file) {
  const TempDir directory;
  write_file(directory.path() + "/m.gguf", file.build());
  Checkpoint checkpoint = Checkpoint::open(directory.path() + "/m.gguf");
  checkpoint.check_tensors();
  return checkpoint;
}

inline void check_refused(const GgufBuilder& file, const std::vector<std::string>& parts) {
  check_error([&] { open(file); }, parts);
}

inline void drop(GgufBuilder& file, const std::string& name) {
  std::erase_if(file.tensors, [&](const GgufBuilder::Tensor& tensor) { return tensor.name == name; });
}

}  // namespace sida::testing
