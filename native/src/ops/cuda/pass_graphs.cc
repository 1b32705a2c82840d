#include "ops/cuda/pass_graphs.h"

#include <algorithm>

#include "device/allocation_bytes.h"

namespace sida {
namespace {

/// Captures what is launched on a stream while it lives. An exception must not leave the stream in this state.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    // Other threads go on copying experts.
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    if (stream_ == nullptr) return;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // clears the error
  }

  CudaGraph end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    stream_ = nullptr;
    cuda_check(error, "cudaStreamEndCapture");
    return CudaGraph(graph);
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

void PassGraphs::run(const PassShape& shape, cudaStream_t stream, FunctionRef<void()> launches) {
  const auto found = std::ranges::find(graphs_, shape, &Graph::shape);
  if (found == graphs_.end()) {
    if (graphs_.size() == kMostGraphs) graphs_.pop_back();
    graphs_.push_front({shape, nullptr});
    return launches();
  }
  graphs_.splice(graphs_.begin(), graphs_, found);
  Graph& own = graphs_.front();
  if (own.graph == nullptr && !own.refused) {
    own.graph = capture(stream, launches);
    own.refused = own.graph == nullptr;
  }
  if (own.refused) return launches();
  cuda_check(cudaGraphLaunch(own.graph.get(), stream), "cudaGraphLaunch");
}

CudaGraphExec PassGraphs::capture(cudaStream_t stream, FunctionRef<void()> launches) {
  Capture capture(stream);
  launches();
  cuda_check_launches("captured pass");
  const CudaGraph graph = capture.end();
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph.get(), 0);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error
    return nullptr;
  }
  cuda_check(error, "cudaGraphInstantiate");
  return CudaGraphExec(executable);
}

}  // namespace sida
