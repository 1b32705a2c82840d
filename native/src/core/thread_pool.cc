#include "core/thread_pool.h"

#include <string>
#include <system_error>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sida {
namespace {

// Long enough to bridge the gap between two loops of a layer, short enough to leave an idle core alone.
constexpr int kSpins = 4000;
constexpr uint64_t kTaskBits = 20;
constexpr uint64_t kTaskMask = (1u << kTaskBits) - 1;

uint64_t loop_of(uint64_t state) { return state >> (2 * kTaskBits); }
uint64_t tasks_of(uint64_t state) { return state >> kTaskBits & kTaskMask; }
uint64_t next_of(uint64_t state) { return state & kTaskMask; }

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(size_t threads) {
  try {
    for (size_t i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw Error("out_of_memory",
                "thread " + std::to_string(workers_.size() + 1) + " of " + std::to_string(threads) +
                    " could not be started: " + error.what(),
                {{"threads", static_cast<double>(threads)}});
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(size_t tasks, FunctionRef<void(size_t, size_t)> body) {
  if (tasks <= 1 || workers_.empty()) {
    for (size_t i = 0; i < tasks; ++i) body(i, 0);
    return;
  }
  if (tasks > kTaskMask) {
    const size_t half = tasks / 2;
    parallel_for(half, body);
    parallel_for(tasks - half, [&](size_t task, size_t thread) { body(half + task, thread); });
    return;
  }
  body_ = &body;
  done_.store(0);
  const uint64_t loop = loop_of(state_.load()) + 1;
  state_.store(loop << (2 * kTaskBits) | tasks << kTaskBits);
  if (sleepers_.load() > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  run_tasks(loop_of(state_.load()), 0);
  for (int spin = 0; done_.load(std::memory_order_acquire) != tasks; ++spin) {
    if (spin < kSpins) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::run_tasks(uint64_t loop, size_t thread) {
  uint64_t state = state_.load();
  while (loop_of(state) == loop && next_of(state) < tasks_of(state)) {
    if (!state_.compare_exchange_weak(state, state + 1)) continue;
    (*body_)(next_of(state), thread);
    done_.fetch_add(1, std::memory_order_release);
    state = state_.load();
  }
}

void ThreadPool::work(size_t thread) {
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && loop_of(state_.load(std::memory_order_acquire)) == seen; ++spin) relax();
    if (loop_of(state_.load()) == seen) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return stopping_ || loop_of(state_.load()) != seen; });
      --sleepers_;
    }
    if (stopping_) return;
    seen = loop_of(state_.load());
    run_tasks(seen, thread);
  }
}

}  // namespace sida
