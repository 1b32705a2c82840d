#include "core/thread_pool.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "doctest/doctest.h"

namespace sida {
namespace {

TEST_CASE("thread pool: runs every task of every loop exactly once") {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (size_t loop = 0; loop < 3000; ++loop) {
      const size_t tasks = loop % 37;
      std::vector<int> runs(tasks);
      pool.parallel_for(tasks, [&](size_t task, size_t thread) {
        REQUIRE(thread < threads);
        ++runs[task];
      });
      REQUIRE(std::accumulate(runs.begin(), runs.end(), size_t{0}) == tasks);
      REQUIRE(std::count(runs.begin(), runs.end(), 1) == static_cast<long>(tasks));
    }
  }
}

TEST_CASE("thread pool: a loop of more than a million tasks") {
  ThreadPool pool(2);
  std::vector<uint8_t> runs((1u << 20) + 5);
  pool.parallel_for(runs.size(), [&](size_t task, size_t) { ++runs[task]; });
  CHECK(std::count(runs.begin(), runs.end(), 1) == static_cast<long>(runs.size()));
}

}  // namespace
}  // namespace sida
