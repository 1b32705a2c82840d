#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace sida {

/// A tensor of a pickled state dict.
struct PickledTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<uint64_t> shape;
  std::string_view storage;       ///< its key, in the pickle
  uint64_t storage_elements = 0;  ///< of the whole storage
  uint64_t first = 0;             ///< element of the storage
};

/// The tensors of a state dict that torch.save has pickled, in its order. Runs nothing: it knows the opcodes and the
/// globals of such a pickle, and throws checkpoint_invalid for any other, and for a tensor that is not contiguous.
/// `pickle` begins `begin` bytes in the file that `display` names.
std::vector<PickledTensor> read_tensor_pickle(std::string_view pickle, uint64_t begin, const std::string& display);

}  // namespace sida
