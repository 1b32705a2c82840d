// Graphs of captured work, which is replayed in the order in which it was captured.
#include <map>
#include <memory>
#include <set>
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
  cudaStream_t origin;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  bool valid = true;
  std::map<cudaEvent_t, cudaStream_t> events = {};  ///< recorded in streams of the capture
  std::set<cudaStream_t> apart = {};                ///< streams whose work the origin does not wait for yet
};

/// Of this thread, by stream. Only the mode of a thread's own captures is emulated.
thread_local std::map<cudaStream_t, std::shared_ptr<Capture>> captures;

}  // namespace

bool captured(cudaStream_t handle) { return captures.contains(handle); }

bool capture(cudaStream_t handle, const std::function<void()>& work) {
  const auto found = captures.find(handle);
  if (found == captures.end()) return false;
  Capture& capture = *found->second;
  capture.graph->work.push_back(work);
  if (handle != capture.origin) capture.apart.insert(handle);
  return true;
}

bool capture_record(cudaStream_t handle, cudaEvent_t event) {
  const auto found = captures.find(handle);
  if (found == captures.end()) return false;
  found->second->events[event] = handle;
  return true;
}

bool capture_wait(cudaStream_t handle, cudaEvent_t event) {
  for (const auto& [stream, capture] : captures) {
    const auto recorded = capture->events.find(event);
    if (recorded == capture->events.end()) continue;
    const auto own = captures.try_emplace(handle, capture).first->second;
    if (own != capture) return false;
    if (handle != capture->origin) {
      capture->apart.insert(handle);
    } else {
      capture->apart.erase(recorded->second);
    }
    return true;
  }
  return false;
}

cudaError_t refuse_in_capture() {
  if (captures.empty()) return cudaSuccess;
  for (auto& [stream, capture] : captures) capture->valid = false;
  return cudaErrorStreamCaptureUnsupported;
}

}  // namespace sida::emulation

using namespace sida::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call([&] {
    if (handle == nullptr || mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;
    if (captured(handle)) return refuse_in_capture();
    captures[handle] = std::make_shared<Capture>(Capture{handle});
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return call(
      [&] {
        const auto found = captures.find(handle);
        if (found == captures.end() || found->second->origin != handle) return cudaErrorInvalidValue;
        const std::shared_ptr<Capture> ended = found->second;
        std::erase_if(captures, [&](const auto& each) { return each.second == ended; });
        if (!ended->valid) return cudaErrorStreamCaptureInvalidated;
        if (!ended->apart.empty()) return cudaErrorStreamCaptureUnjoined;
        *graph = ended->graph.release();
        return cudaSuccess;
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
