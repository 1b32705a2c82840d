#include "core/thread_pool.h"

#include <time.h>

#include "support/test.h"

namespace {

TEST_CASE("thread pool: runs every task of every loop exactly once") {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (size_t loop = 0; loop < 3000; ++loop) {
      const size_t tasks = loop == 999 ? (1u << 20) + 5 : loop % 37;
      std::vector<int> runs(tasks);
      pool.parallel_for(tasks, [&](size_t task, size_t thread) { runs[task] += thread < threads ? 1 : 2; });
      REQUIRE(std::count(runs.begin(), runs.end(), 1) == static_cast<long>(tasks));
    }
  }
}

TEST_CASE("thread pool: workers without a loop leave the cores to others") {
  ThreadPool pool(4);
  pool.parallel_for(64, [](size_t, size_t) {});
  const auto processor_time = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double before = processor_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // A worker that spun all the while would take 0.3 s, three of them on one core together as much.
  CHECK(processor_time() - before < 0.1);
}

}  // namespace
