// Streams of work, and events, which are points in it.
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "emulation_control.h"
#include "machine/sanitizers.h"
#include "runtime/runtime.h"

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

std::atomic<std::chrono::microseconds> wait_delay{};

void delay() {
  static const char* const longest = std::getenv("SIDA_EMULATION_DELAY_US");
  if (longest == nullptr) return;
  thread_local std::mt19937 random(static_cast<unsigned>(shuffle_seed()));
  std::uniform_int_distribution<unsigned long> microseconds(0, std::strtoul(longest, nullptr, 10));
  std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
}

}  // namespace

void delay_waits(std::chrono::microseconds time) { wait_delay = time; }

void Marker::reach() {
  release(&order_);
  const Unobserved own_work;
  const std::lock_guard lock(mutex_);
  reached_ = true;
  time_ = std::chrono::steady_clock::now();
  cv_.notify_all();
}

void Marker::wait() {
  {
    const Unobserved own_work;
    std::unique_lock lock(mutex_);
    cv_.wait(lock, [&] { return reached_; });
  }
  acquire(&order_);
}

bool Marker::reached() {
  bool reached;
  {
    const Unobserved own_work;
    const std::lock_guard lock(mutex_);
    reached = reached_;
  }
  if (reached) acquire(&order_);
  return reached;
}

std::chrono::steady_clock::time_point Marker::time() {
  const Unobserved own_work;
  const std::lock_guard lock(mutex_);
  return time_;
}

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
  if (capture(handle, work)) return cudaSuccess;
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

std::shared_ptr<CUstream_st> CUstream_st::open() {
  auto stream = std::make_shared<CUstream_st>();
  std::thread([stream] { stream->work(); }).detach();
  return stream;
}

void CUstream_st::push(std::function<void()> run) {
  auto work = std::make_unique<Work>(Work{std::move(run)});
  release(&work->order);
  const Unobserved own_work;
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  came_.notify_one();
}

std::shared_ptr<Marker> CUstream_st::mark() {
  auto marker = std::make_shared<Marker>();
  push([marker] { marker->reach(); });
  return marker;
}

void CUstream_st::close() {
  const Unobserved own_work;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  came_.notify_one();
}

std::unique_ptr<CUstream_st::Work> CUstream_st::take() {
  const Unobserved own_work;
  std::unique_lock lock(mutex_);
  came_.wait(lock, [&] { return closed_ || !queue_.empty(); });
  if (queue_.empty()) return nullptr;
  auto work = std::move(queue_.front());
  queue_.pop_front();
  return work;
}

void CUstream_st::work() {
  while (const auto next = take()) {
    acquire(&next->order);
    next->run();
  }
}

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
    if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
    count(Counted::kWait);
    std::shared_ptr<Marker> marker;
    const cudaError_t error = with_stream(handle, [&](CUstream_st& stream) { marker = stream.mark(); });
    if (error == cudaSuccess) marker->wait();
    return error;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
    count(Counted::kWait);
    wait_for_all_streams();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call([&] {
    if (captured(handle)) return refuse_in_capture();
    return with_stream(handle, [&](CUstream_st& stream) {
      stream.push([=] {
        if (sticky_error() == cudaSuccess) function(argument);
      });
    });
  });
}

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<Marker> marker;  ///< of the last record; null before

  std::shared_ptr<Marker> last_record() {
    const std::lock_guard lock(mutex);
    return marker;
  }
};

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&] {
    *event = new CUevent_st();
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(
      [&] {
        delete event;
        return cudaSuccess;
      },
      On::kAnyDevice);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return call([&] {
    if (capture_record(handle, event)) return cudaSuccess;
    const std::lock_guard lock(event->mutex);
    return with_stream(handle, [&](CUstream_st& stream) { event->marker = stream.mark(); });
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  return call([&] {
    if (capture_wait(handle, event)) return cudaSuccess;
    if (captured(handle)) return refuse_in_capture();
    return with_stream(handle, [marker = event->last_record()](CUstream_st& stream) {
      if (marker == nullptr) return;
      stream.push([marker, late = wait_delay.load()] {
        marker->wait();
        std::this_thread::sleep_for(late);
      });
    });
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call([&] {
    if (const cudaError_t refused = refuse_in_capture(); refused != cudaSuccess) return refused;
    count(Counted::kWait);
    if (const auto marker = event->last_record()) marker->wait();
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return call([&] {
    const auto first = start->last_record(), last = end->last_record();
    if (first == nullptr || last == nullptr) return cudaErrorInvalidResourceHandle;
    if (!first->reached() || !last->reached()) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
    return cudaSuccess;
  });
}
