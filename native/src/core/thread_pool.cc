#include "core/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sida {
namespace {

// Long enough to bridge the gap between two loops of one layer, short enough not to burn an idle core.
constexpr int kSpins = 4000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(size_t threads) {
  for (size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(size_t tasks, const std::function<void(size_t, size_t)>& body) {
  if (tasks == 0) return;
  if (tasks == 1 || workers_.empty()) {
    for (size_t i = 0; i < tasks; ++i) body(i, 0);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    tasks_ = tasks;
    next_.store(0);
    busy_.store(workers_.size());
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  drain(0);
  for (int spin = 0; busy_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::drain(size_t thread) {
  for (size_t task = next_.fetch_add(1); task < tasks_; task = next_.fetch_add(1)) (*body_)(task, thread);
}

void ThreadPool::work(size_t thread) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen; ++spin) relax();
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load() != seen; });
      seen = generation_.load();
      if (stopping_) return;
    }
    drain(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace sida
