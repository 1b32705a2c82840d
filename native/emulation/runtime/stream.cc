#include "runtime/stream.h"

#include <thread>
#include <utility>

#include "machine/sanitizers.h"

namespace sida::emulation {

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
