#include "runtime/streams.h"

#include <atomic>
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
#include "runtime/errors.h"

namespace sida::emulation {
namespace {

struct Streams {
  std::mutex mutex;
  std::shared_ptr<CUstream_st> default_stream = CUstream_st::open(false);
  std::map<cudaStream_t, std::shared_ptr<CUstream_st>> others;
  std::atomic<unsigned> longest_delay_us = 0;
};

// Streams may run until the process ends.
Streams& streams() {
  static auto& all = *[] {
    auto* made = new Streams();
    const char* delay = std::getenv("SIDA_EMULATION_DELAY_US");
    if (delay != nullptr) made->longest_delay_us = static_cast<unsigned>(std::strtoul(delay, nullptr, 10));
    return made;
  }();
  return all;
}

void delay() {
  const unsigned longest = streams().longest_delay_us.load(std::memory_order_relaxed);
  if (longest == 0) return;
  thread_local std::mt19937 random(static_cast<unsigned>(shuffle_seed()));
  std::this_thread::sleep_for(
      std::chrono::microseconds(std::uniform_int_distribution<unsigned>(0, longest)(random)));
}

}  // namespace

cudaError_t open_stream(cudaStream_t* handle, unsigned flags) {
  if (handle == nullptr || flags > cudaStreamNonBlocking) return cudaErrorInvalidValue;
  auto stream = CUstream_st::open(flags == cudaStreamDefault);
  *handle = stream.get();
  const std::lock_guard lock(streams().mutex);
  streams().others[*handle] = std::move(stream);
  return cudaSuccess;
}

cudaError_t close_stream(cudaStream_t handle) {
  const std::lock_guard lock(streams().mutex);
  const auto found = streams().others.find(handle);
  if (found == streams().others.end()) return cudaErrorInvalidResourceHandle;
  found->second->close();
  streams().others.erase(found);
  return cudaSuccess;
}

cudaError_t with_stream(cudaStream_t handle, const std::function<void(CUstream_st&)>& use) {
  const std::lock_guard lock(streams().mutex);
  CUstream_st& first = *streams().default_stream;
  if (handle == nullptr) {
    for (const auto& [other, stream] : streams().others) {
      if (stream->waits_for_default) first.wait_for(stream->mark());
    }
    use(first);
    for (const auto& [other, stream] : streams().others) {
      if (stream->waits_for_default) stream->wait_for(first.mark());
    }
    return cudaSuccess;
  }
  const auto found = streams().others.find(handle);
  if (found == streams().others.end()) return cudaErrorInvalidResourceHandle;
  use(*found->second);
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

void set_longest_delay(unsigned microseconds) { streams().longest_delay_us = microseconds; }

}  // namespace sida::emulation
