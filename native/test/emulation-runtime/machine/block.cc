#include "machine/block.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "emulated_instructions.h"
#include "machine/sanitizers.h"

constinit thread_local uint3 threadIdx = {};
constinit thread_local uint3 blockIdx = {};
constinit thread_local dim3 blockDim = {};
constinit thread_local dim3 gridDim = {};

namespace sida::emulation {
namespace {

constexpr unsigned kWarp = 32;

thread_local Block* current_block = nullptr;

/// Unwinds the threads of a block that failed.
struct Abandoned {};

std::string text(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

}  // namespace

Block::Block(uint64_t seed) : lot_(seed * 2 + 1) {}

Block::~Block() = default;

Block& Block::current() { return *current_block; }

void Block::prepare(const GridShape& shape) {
  if (shape.shared_bytes != shared_bytes_) {
    // Of the exact size, so that the address sanitizer sees what is beyond.
    void* memory = nullptr;
    if (posix_memalign(&memory, 128, shape.shared_bytes) != 0) throw std::bad_alloc();
    shared_.reset(static_cast<std::byte*>(memory));
    shared_bytes_ = shape.shared_bytes;
  }
  std::memset(shared_.get(), 0xff, shared_bytes_);

  thread_count_ = size_t{shape.block.x} * shape.block.y * shape.block.z;
  while (threads_.size() < thread_count_) threads_.push_back(std::make_unique<Thread>());
  ready_.clear();
  for (size_t i = 0; i < thread_count_; ++i) {
    Thread& thread = *threads_[i];
    if (thread.fiber == nullptr) thread.fiber = std::make_unique<Fiber>([this, i] { live(i); });
    const auto index = static_cast<unsigned>(i);
    thread.index = {index % shape.block.x, index / shape.block.x % shape.block.y,
                    index / (shape.block.x * shape.block.y)};
    thread.copies.clear();
    make_ready(thread);
  }
  at_barrier_ = 0;
  ended_ = 0;
  failure_.reset();
}

std::optional<Failure> Block::run(const std::function<void()>& kernel, const GridShape& shape, uint3 index) {
  current_block = this;
  kernel_ = &kernel;
  blockIdx = index;
  blockDim = shape.block;
  gridDim = shape.grid;
  prepare(shape);
  release(&start_order_);
  {
    const Unobserved own_work;
    run_another();
  }
  acquire(&end_order_);
  return failure_;
}

void Block::live(size_t thread) {
  for (;;) {
    acquire(&start_order_);
    try {
      if (!failure_) (*kernel_)();
    } catch (const Abandoned&) {
    }
    release(&end_order_);
    const Unobserved own_work;
    ++ended_;
    threads_[thread]->state = State::kEnded;
    run_another();
  }
}

/// Leaves the running thread until another makes it ready.
void Block::wait() {
  run_another();
  if (failure_) throw Abandoned();
}

/// Changes to a thread that is ready; when all have ended, to the block's own flow. After a failure every
/// thread is ready, to unwind.
void Block::run_another() {
  if (!failure_ && ready_.empty() && ended_ < thread_count_) failure_ = Failure{cudaErrorLaunchFailure, stuck()};
  if (failure_) {
    ready_.clear();
    for (size_t i = 0; i < thread_count_; ++i) {
      if (threads_[i]->state != State::kEnded) ready_.push_back(threads_[i].get());
    }
  }
  Thread* const last = running_;
  Fiber& from = last == nullptr ? own_ : *last->fiber;
  if (ready_.empty()) {
    running_ = nullptr;
    Fiber::change(from, own_);
    return;
  }
  lot_ ^= lot_ << 13;
  lot_ ^= lot_ >> 7;
  lot_ ^= lot_ << 17;
  std::swap(ready_[(lot_ & UINT32_MAX) * ready_.size() >> 32], ready_.back());
  running_ = ready_.back();
  ready_.pop_back();
  threadIdx = running_->index;
  if (running_ != last) Fiber::change(from, *running_->fiber);
}

void Block::make_ready(Thread& thread) {
  thread.state = State::kReady;
  ready_.push_back(&thread);
}

void Block::barrier() {
  char* const order = &barrier_order_[barriers_ % 2];
  release(order);
  {
    const Unobserved own_work;
    running_->state = State::kAtBarrier;
    if (++at_barrier_ == thread_count_) {
      at_barrier_ = 0;
      ++barriers_;
      for (size_t i = 0; i < thread_count_; ++i) make_ready(*threads_[i]);
    }
    wait();
  }
  acquire(order);
}

void Block::together(unsigned mask, const WarpOperation& operation, void* operand) {
  const Unobserved own_work;
  if ((mask >> lane() & 1) == 0) fail(cudaErrorLaunchFailure, "a warp function without its own lane in the mask");
  Thread& self = *running_;
  self.state = State::kTogether;
  self.mask = mask;
  self.operation = &operation;
  self.operand = operand;
  const unsigned flat = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned first = flat - flat % kWarp;
  if (all_together(first, mask, operation)) {
    void* operands[kWarp] = {};
    for (unsigned i = 0; i < kWarp; ++i) {
      if ((mask >> i & 1) == 0) continue;
      operands[i] = threads_[first + i]->operand;
      make_ready(*threads_[first + i]);
    }
    operation.run(mask, operands);
  }
  wait();
}

bool Block::all_together(unsigned first, unsigned mask, const WarpOperation& operation) const {
  for (unsigned i = 0; i < kWarp; ++i) {
    if ((mask >> i & 1) == 0) continue;
    if (first + i >= thread_count_) return false;
    const Thread& thread = *threads_[first + i];
    if (thread.state != State::kTogether || thread.mask != mask || thread.operation != &operation) return false;
  }
  return true;
}

void Block::fail(cudaError_t error, const char* what) {
  {
    const Unobserved own_work;
    failure_ = Failure{error, "thread " + name_of(*running_) + ": " + what};
  }
  throw Abandoned();
}

unsigned Block::lane() const { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % kWarp; }

AsyncCopies& Block::copies() { return running_->copies; }

void* Block::warp_order() {
  return &warp_order_[(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) / kWarp];
}

std::string Block::name_of(const Thread& thread) const { return text(thread.index) + " of block " + text(blockIdx); }

std::string Block::stuck() const {
  std::string report =
      std::to_string(ended_) + " threads ended, " + std::to_string(at_barrier_) + " wait at __syncthreads";
  for (size_t i = 0; i < thread_count_; ++i) {
    const Thread& thread = *threads_[i];
    if (thread.state != State::kTogether) continue;
    char mask[16];
    std::snprintf(mask, sizeof(mask), "0x%08x", thread.mask);
    return report + ", others at warp functions, as " + name_of(thread) + " at " + thread.operation->name +
           " for the lanes " + mask;
  }
  return report + ", in block " + text(blockIdx);
}

void block_barrier() { Block::current().barrier(); }

unsigned lane() { return Block::current().lane(); }

std::byte* dynamic_shared() { return Block::current().shared_memory(); }

}  // namespace sida::emulation
