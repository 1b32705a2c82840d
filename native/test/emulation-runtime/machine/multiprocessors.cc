#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "emulation_control.h"
#include "machine/block.h"
#include "machine/sanitizers.h"

namespace sida::emulation {
namespace {

/// Two are enough for blocks to meet; more would only cost stacks.
constexpr unsigned kMultiprocessors = 2;

struct Grid {
  const std::function<void()>& kernel;
  const GridShape& shape;
  uint64_t blocks;
  std::atomic<uint64_t> next = 0;
  unsigned workers = 0;
  std::optional<Failure> failure = {};
  // Addresses alone matter, to the thread sanitizer.
  char start_order = 0;
  char end_order = 0;
};

class Multiprocessors {
 public:
  Multiprocessors() {
    for (unsigned i = 0; i < kMultiprocessors; ++i) std::thread([this, i] { work(i); }).detach();
  }

  void run(Grid& grid) {
    release(&grid.start_order);
    {
      const Unobserved own_work;
      std::unique_lock lock(mutex_);
      grids_.push_back(&grid);
      work_came_.notify_all();
      grid_ended_.wait(lock, [&] { return grid.next >= grid.blocks && grid.workers == 0; });
      std::erase(grids_, &grid);
    }
    acquire(&grid.end_order);
  }

 private:
  [[noreturn]] void work(unsigned multiprocessor) {
    Block block(shuffle_seed() + multiprocessor);
    for (;;) {
      Grid& grid = take();
      acquire(&grid.start_order);
      std::optional<Failure> failure;
      // Which block a thread draws must order nothing, as it orders nothing on hardware.
      for (;;) {
        const uint64_t i = grid.next.fetch_add(1, std::memory_order_relaxed);
        if (i >= grid.blocks) break;
        const auto rows = i / grid.shape.grid.x;
        failure =
            block.run(grid.kernel, grid.shape,
                      {static_cast<unsigned>(i % grid.shape.grid.x), static_cast<unsigned>(rows % grid.shape.grid.y),
                       static_cast<unsigned>(rows / grid.shape.grid.y)});
        if (failure) grid.next = grid.blocks;
      }
      release(&grid.end_order);
      const Unobserved own_work;
      const std::lock_guard lock(mutex_);
      if (failure) grid.failure = std::move(failure);
      if (--grid.workers == 0) grid_ended_.notify_all();
    }
  }

  Grid& take() {
    const Unobserved own_work;
    std::unique_lock lock(mutex_);
    for (;;) {
      for (Grid* grid : grids_) {
        if (grid->next >= grid->blocks) continue;
        ++grid->workers;
        return *grid;
      }
      work_came_.wait(lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable grid_ended_;
  std::deque<Grid*> grids_;
};

}  // namespace

std::optional<Failure> run_grid(const std::function<void()>& kernel, const GridShape& shape) {
  // Its threads live as long as the process.
  static auto& multiprocessors = *new Multiprocessors();
  Grid grid{kernel, shape, uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z};
  multiprocessors.run(grid);
  return grid.failure;
}

}  // namespace sida::emulation
