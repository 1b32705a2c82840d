#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime.h"
#include "machine/fiber.h"

namespace sida::emulation {

/// Why a kernel ended early. Without memory of its own: what is allocated unobserved must not be freed
/// observed.
struct Failure {
  Failure(cudaError_t kind, const std::string& text) : error(kind) { text.copy(message, sizeof(message) - 1); }

  cudaError_t error;
  char message[256] = {};
};

/// What the lanes of a warp do together. The last to arrive runs it with the operands of all lanes of `mask`.
struct WarpOperation {
  const char* name;
  void (*run)(unsigned mask, void* const* operands);
};

struct GridShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
};

/// A thread's copies from global to shared memory that are under way: done when waited for, and not earlier.
class AsyncCopies {
 public:
  /// Begins to copy 16 bytes; what was at `shared` is lost at once.
  void begin(void* shared, const void* global);
  /// Ends a group.
  void commit();
  /// Does all groups but the last `groups`.
  void finish(size_t groups);
  void clear();

 private:
  struct Copy {
    void* shared;
    const void* global;
  };

  std::vector<Copy> copies_;
  std::vector<size_t> group_ends_;  ///< indices into copies_
};

/// Runs blocks, one after the other, on the thread of the CPU that made it. The threads of a block are
/// fibers: each runs until it waits, then another that can run is drawn by lot.
class Block {
 public:
  explicit Block(uint64_t seed);
  ~Block();

  std::optional<Failure> run(const std::function<void()>& kernel, const GridShape& shape, uint3 index);

  /// The block that this thread of the CPU runs.
  static Block& current();

  // For the running thread of the block:
  void barrier();
  void together(unsigned mask, const WarpOperation& operation, void* operand);
  [[noreturn]] void fail(cudaError_t error, const char* what);
  unsigned lane() const;
  AsyncCopies& copies();
  std::byte* shared_memory() { return shared_.get(); }
  void* warp_order();  ///< where __syncwarp() orders memory, for the sanitizer

 private:
  enum class State { kReady, kAtBarrier, kTogether, kEnded };

  struct Thread {
    std::unique_ptr<Fiber> fiber;
    uint3 index;
    State state;
    unsigned mask;                   ///< while together
    const WarpOperation* operation;  ///< while together
    void* operand;
    AsyncCopies copies;
  };

  void prepare(const GridShape& shape);
  void live(size_t thread);  ///< a fiber's whole life: the kernel of one block after the other
  void wait();
  void run_another();
  void make_ready(Thread& thread);
  bool all_together(unsigned first, unsigned mask, const WarpOperation& operation) const;
  std::string stuck() const;
  std::string name_of(const Thread& thread) const;

  Fiber own_;
  std::vector<std::unique_ptr<Thread>> threads_;
  size_t thread_count_ = 0;  ///< of the block that runs
  std::vector<Thread*> ready_;
  Thread* running_ = nullptr;
  size_t at_barrier_ = 0;
  size_t ended_ = 0;
  uint64_t barriers_ = 0;
  uint64_t lot_;
  const std::function<void()>* kernel_ = nullptr;
  std::optional<Failure> failure_;

  std::unique_ptr<std::byte, decltype(&std::free)> shared_{nullptr, &std::free};
  size_t shared_bytes_ = SIZE_MAX;

  // Addresses alone matter: where the sanitizer is told what orders memory.
  char start_order_ = 0;
  char end_order_ = 0;
  char barrier_order_[2] = {};
  char warp_order_[32] = {};
};

/// Runs all blocks of a grid; blocks of this and of other grids run at the same time. Returns why one failed,
/// if so.
std::optional<Failure> run_grid(const std::function<void()>& kernel, const GridShape& shape);

}  // namespace sida::emulation
