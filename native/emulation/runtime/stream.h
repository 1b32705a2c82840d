#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "runtime/types.h"

namespace sida::emulation {

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
