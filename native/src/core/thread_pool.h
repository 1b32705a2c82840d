#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sida {

/// A fixed set of threads that share loops. The calling thread works too, so `threads` = 1 starts none.
class ThreadPool {
 public:
  explicit ThreadPool(size_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  size_t threads() const { return workers_.size() + 1; }

  /// Calls body(task, thread) for every task in [0, tasks) and returns when all are done. `thread` is below
  /// threads() and names the scratch space a task may use. The body must not throw. One caller at a time.
  void parallel_for(size_t tasks, const std::function<void(size_t task, size_t thread)>& body);

 private:
  void work(size_t thread);
  void drain(size_t thread);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t tasks_ = 0;
  std::atomic<size_t> next_{0};
  std::atomic<size_t> busy_{0};
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace sida
