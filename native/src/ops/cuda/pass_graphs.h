#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "core/function_ref.h"
#include "device/cuda/cuda_handles.h"

namespace sida {

/// By what the launches of two passes may differ.
struct PassShape {
  size_t stack;
  bool cross;                    ///< some sequence has a parent
  bool prefetches;               ///< it may prefetch experts
  std::vector<uint32_t> counts;  ///< rows of each sequence

  bool operator==(const PassShape&) const = default;
};

/// CUDA graphs of passes. The first pass of a shape is launched, as a kernel's first launch may load it, the second is
/// captured, and later ones are replayed.
class PassGraphs {
 public:
  /// Does what `launches` launches on `stream`. They must not depend on anything but the shape.
  void run(const PassShape& shape, cudaStream_t stream, FunctionRef<void()> launches);

 private:
  struct Graph {
    PassShape shape;
    CudaGraphExec graph;   ///< null: not captured yet
    bool refused = false;  ///< the driver had no memory for it
  };
  /// Null where the driver has no memory for it.
  CudaGraphExec capture(cudaStream_t stream, FunctionRef<void()> launches);

  std::list<Graph> graphs_;  ///< the last used one first
};

}  // namespace sida
