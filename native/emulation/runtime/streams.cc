#include "runtime/streams.h"

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "emulation_control.h"
#include "runtime/api.h"
#include "runtime/errors.h"

namespace sida::emulation {
namespace {

struct Streams {
  std::mutex mutex;
  std::shared_ptr<CUstream_st> default_stream = CUstream_st::open();
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> others;
};

// Streams may run until the process ends.
Streams& streams() {
  static auto& all = *new Streams();
  return all;
}

void delay() {
  static const char* const longest = std::getenv("SIDA_EMULATION_DELAY_US");
  if (longest == nullptr) return;
  thread_local std::mt19937 random(static_cast<unsigned>(shuffle_seed()));
  std::uniform_int_distribution<unsigned long> microseconds(0, std::strtoul(longest, nullptr, 10));
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
}

}  // namespace

cudaError_t with_stream(cudaStream_t handle, const std::function<void(CUstream_st&)>& use) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().others.find(handle);
  if (handle != nullptr && found == streams().others.end()) return cudaErrorInvalidResourceHandle;
  use(handle == nullptr ? *streams().default_stream : *found->second);
  return cudaSuccess;
}

void wait_for_all_streams() {
  std::vector<std::shared_ptr<Marker>> markers;
  {
    const std::lock_guard lock(streams().mutex);
    markers.push_back(streams().default_stream->mark());
    for (const auto& [handle, stream] : streams().others) markers.push_back(stream->mark());
  }
  for (const auto& marker : markers) marker->wait();
}

cudaError_t push_device_work(cudaStream_t handle, std::function<void()> work) {
  return with_stream(handle, [&](CUstream_st& stream) {
    stream.push([work = std::move(work)] {
      if (sticky_error() != cudaSuccess) return;
      delay();
      work();
    });
  });
}

}  // namespace sida::emulation

using namespace sida::emulation;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  return call([&] {
    if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    auto stream = CUstream_st::open();
    *handle = stream.get();
    const std::lock_guard lock(streams().mutex);
    streams().others[*handle] = std::move(stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call(
      [&] {
        const std::lock_guard lock(streams().mutex);
        const auto found = streams().others.find(handle);
        if (found == streams().others.end()) return cudaErrorInvalidResourceHandle;
        found->second->close();
        streams().others.erase(found);
        return cudaSuccess;
      },
      On::kAnyDevice);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&] {
    std::shared_ptr<Marker> marker;
    const cudaError_t error = with_stream(handle, [&](CUstream_st& stream) { marker = stream.mark(); });
    if (error == cudaSuccess) marker->wait();
    return error;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    wait_for_all_streams();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call([&] {
    return with_stream(handle, [&](CUstream_st& stream) {
      stream.push([=] {
        if (sticky_error() == cudaSuccess) function(argument);
      });
    });
  });
}
