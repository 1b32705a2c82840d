// Graphs of captured work, which is replayed in the order in which it was captured.
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "emulation_control.h"
#include "runtime/runtime.h"

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};

struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
  void* memory;  ///< of the device
};

namespace sida::emulation {
namespace {

struct Capture {
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  bool valid = true;
};

/// Of this thread, by stream. Only the mode of a thread's own captures is emulated.
thread_local std::map<cudaStream_t, Capture> captures;

}  // namespace

bool captured(cudaStream_t handle) { return captures.contains(handle); }

bool capture(cudaStream_t handle, const std::function<void()>& work) {
  const auto found = captures.find(handle);
  if (found == captures.end()) return false;
  found->second.graph->work.push_back(work);
  return true;
}

cudaError_t refuse_in_capture() {
  if (captures.empty()) return cudaSuccess;
  for (auto& [stream, capture] : captures) capture.valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace sida::emulation

using namespace sida::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    if (handle == nullptr || mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
    if (captured(handle)) return refuse_in_capture();
    captures[handle];
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return call(
      [&] {
        const auto found = captures.find(handle);
        if (found == captures.end()) return cudaErrorInvalidValue;
        const bool valid = found->second.valid;
        if (valid) *graph = found->second.graph.release();
        captures.erase(found);
        return valid ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
      },
      On::kAnyDevice);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call([&] {
    // As large as the parameters of all kernels may be.
    constexpr size_t kLaunchBytes = 4096;
    void* memory = nullptr;
    const cudaError_t error = allocate(Place::kDevice, graph->work.size() * kLaunchBytes, &memory);
    if (error == cudaSuccess) *executable = new CUgraphExec_st{graph->work, memory};
    return error;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return call([&] {
    if (captured(handle)) return refuse_in_capture();
    if (fault_file_found()) {
      return push_device_work(handle, [] { end_device(cudaErrorIllegalAddress, "a fault file"); });
    }
    for (const std::function<void()>& work : executable->work) {
      if (const cudaError_t error = push_device_work(handle, work); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call(
      [&] {
        delete graph;
        return cudaSuccess;
      },
      On::kAnyDevice);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call(
      [&] {
        const cudaError_t error = release_memory(Place::kDevice, executable->memory);
        delete executable;
        return error;
      },
      On::kAnyDevice);
}
