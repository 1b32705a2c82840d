#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "core/function_ref.h"

namespace sida {

/// A fixed set of threads that share loops. The calling thread works too, so `threads` = 1 starts no thread. A worker
/// that the system schedules too late misses a loop; it delays a loop only after it has taken a task.
class ThreadPool {
 public:
  /// Throws out_of_memory when the system gives no more threads.
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const { return workers_.size() + 1; }

  /// Calls body(task, thread) for every task in [0, tasks) and returns when all are done. `thread` is below threads()
  /// and numbers the scratch space that the task may use. The body must not throw. One caller at a time.
  void parallel_for(size_t tasks, FunctionRef<void(size_t task, size_t thread)> body);

 private:
  void stop();
  void work(size_t thread);
  void run_tasks(uint64_t loop, size_t thread);

  /// The running loop in one word, so that a thread that takes a task knows it belongs to this loop: loop number (24
  /// bits) | tasks (20) | next task (20).
  std::atomic<uint64_t> state_{0};
  std::atomic<size_t> done_{0};
  const FunctionRef<void(size_t, size_t)>* body_ = nullptr;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

}  // namespace sida
