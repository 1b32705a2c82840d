#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "cuda_runtime.h"

namespace sida::emulation {

/// The error that ended the device, or cudaSuccess. Nothing runs after it.
cudaError_t sticky_error();
/// Ends the device. The first error stays.
void end_device(cudaError_t error, const std::string& why);
/// Keeps a call's error for cudaGetLastError() on this thread, and returns it.
cudaError_t keep(cudaError_t error);
void clear_errors();

/// One call of the runtime. A call that gives something back does so on an ended device too, but still fails.
enum class On { kLivingDevice, kAnyDevice };
template <class Body>
cudaError_t call(Body&& body, On on = On::kLivingDevice) {
  if (sticky_error() != cudaSuccess && on == On::kLivingDevice) return keep(sticky_error());
  const cudaError_t error = body();
  return keep(sticky_error() != cudaSuccess ? sticky_error() : error);
}

enum class Counted { kLaunch, kCopy, kWait };
/// Adds one to calls().
void count(Counted call);

/// Of the device, and of a process's context on it.
inline constexpr size_t kTotalMemory = size_t{4} << 30, kContextMemory = size_t{64} << 20;

enum class Place { kPageable, kPinned, kDevice };

/// Where [address, address + bytes) lies. kPageable too if only a part of it is known.
Place place_of(const void* address, size_t bytes);

/// Takes the memory of the process's context, once.
void make_context();
size_t total_memory();

/// Memory of its own, in pages of its place, with all bits set: a NaN in every type of float.
cudaError_t allocate(Place place, size_t bytes, void** address);
cudaError_t release_memory(Place place, void* address);

/// A point in a stream's work that threads and other streams can wait for.
class Marker {
 public:
  void reach();
  void wait();
  bool reached();
  std::chrono::steady_clock::time_point time();  ///< once reached

 private:
  std::mutex mutex_;
  std::condition_variable cv_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point time_;
  char order_ = 0;  ///< its address alone matters, to the thread sanitizer
};

}  // namespace sida::emulation

/// Work done in order by a thread of its own, which ends when the stream is closed and its work done.
struct CUstream_st {
 public:
  static std::shared_ptr<CUstream_st> open();

  void push(std::function<void()> work);
  std::shared_ptr<sida::emulation::Marker> mark();
  void close();

 private:
  struct Work {
    std::function<void()> run;
    char order = 0;  ///< its address alone matters, to the thread sanitizer
  };

  void work();
  std::unique_ptr<Work> take();

  std::mutex mutex_;
  std::condition_variable came_;
  std::list<std::unique_ptr<Work>> queue_;  ///< an empty list holds no memory that was allocated unobserved
  bool closed_ = false;
};

namespace sida::emulation {

/// Gives `use` the stream of a handle (null: the default stream); fails if there is none. The streams that the project
/// makes do not take turns with the default stream.
cudaError_t with_stream(cudaStream_t handle, const std::function<void(CUstream_st&)>& use);

/// Waits for the work of all streams.
void wait_for_all_streams();

/// Queues work that the device does unless it has ended; it may begin late by up to SIDA_EMULATION_DELAY_US. While the
/// stream is captured, the work goes to the graph instead.
cudaError_t push_device_work(cudaStream_t handle, std::function<void()> work);

/// Whether the stream is captured.
bool captured(cudaStream_t handle);
/// Adds work to the graph that captures the stream; false where none does.
bool capture(cudaStream_t handle, const std::function<void()>& work);
/// Adds an event to the capture of the stream; false where none captures it.
bool capture_record(cudaStream_t handle, cudaEvent_t event);
/// Makes the stream a part of the capture that recorded the event; false where none did.
bool capture_wait(cudaStream_t handle, cudaEvent_t event);
/// The error of a call that a thread must not make while it captures, which also ends the capture; or cudaSuccess.
cudaError_t refuse_in_capture();
/// Whether a kernel that is launched now reads where it must not (SIDA_EMULATION_FAULT_FILE).
bool fault_file_found();

}  // namespace sida::emulation
