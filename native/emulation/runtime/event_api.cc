#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/streams.h"

using namespace sida::emulation;

struct CUevent_st {
  explicit CUevent_st(bool is_timed) : timed(is_timed) {}

  const bool timed;
  std::shared_ptr<Marker> marker;  ///< of the last record; null before
};

namespace {

struct Events {
  std::mutex mutex;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> all;
};

Events& events() {
  static auto& all = *new Events();
  return all;
}

/// Null if there is no such event.
CUevent_st* find(cudaEvent_t handle) {
  const auto found = events().all.find(handle);
  return found == events().all.end() ? nullptr : found->second.get();
}

/// The marker of the event's last record, null if it has none.
cudaError_t last_record(cudaEvent_t handle, std::shared_ptr<Marker>& marker) {
  const std::lock_guard lock(events().mutex);
  const CUevent_st* event = find(handle);
  if (event == nullptr) return cudaErrorInvalidResourceHandle;
  marker = event->marker;
  return cudaSuccess;
}

/// The marker of a timed event that was recorded.
cudaError_t timed_record(cudaEvent_t handle, std::shared_ptr<Marker>& marker) {
  if (const cudaError_t error = last_record(handle, marker); error != cudaSuccess) return error;
  const std::lock_guard lock(events().mutex);
  if (marker == nullptr || !find(handle)->timed) return cudaErrorInvalidResourceHandle;
  return marker->reached() ? cudaSuccess : cudaErrorNotReady;
}

}  // namespace

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* handle, unsigned flags) {
  return call([&] {
    auto event = std::make_unique<CUevent_st>((flags & cudaEventDisableTiming) == 0);
    *handle = event.get();
    const std::lock_guard lock(events().mutex);
    events().all[*handle] = std::move(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return call(
      [&] {
        const std::lock_guard lock(events().mutex);
        return events().all.erase(handle) == 0 ? cudaErrorInvalidResourceHandle : cudaSuccess;
      },
      On::kAnyDevice);
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  return call([&] {
    const std::lock_guard lock(events().mutex);
    CUevent_st* event = find(handle);
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return with_stream(stream, [&](CUstream_st& work) { event->marker = work.mark(); });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned) {
  return call([&] {
    std::shared_ptr<Marker> marker;
    if (const cudaError_t error = last_record(handle, marker); error != cudaSuccess) return error;
    return with_stream(stream, [&](CUstream_st& work) {
      if (marker != nullptr) work.push([marker] { marker->wait(); });
    });
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return call([&] {
    std::shared_ptr<Marker> marker;
    const cudaError_t error = last_record(handle, marker);
    if (marker != nullptr) marker->wait();
    return error;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    std::shared_ptr<Marker> first, last;
    if (const cudaError_t error = timed_record(start, first); error != cudaSuccess) return error;
    if (const cudaError_t error = timed_record(end, last); error != cudaSuccess) return error;
    *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
    return cudaSuccess;
  });
}
