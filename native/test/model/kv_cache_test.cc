#include "model/kv_cache.h"

#include <random>

#include "core/error.h"
#include "doctest/doctest.h"

namespace sida {
namespace {

struct Room {
  std::unique_ptr<Backend> backend = make_cpu_backend();
  DeviceMemory memory{*backend, 64 << 20};
  KvCache cache{memory, {2, 2, 24}, 160};  // 10 pages
};

TEST_CASE("kv cache: a writer copies the page that others own too, and only that one") {
  Room room;
  KvCache& cache = room.cache;
  KvPages parent;
  cache.grow(parent, 0, 40);
  const std::vector<float> rows(40 * 2 * 24, 3.0f);
  cache.write_keys(parent, 1, 0, rows.data(), 40);
  KvPages child = cache.fork(parent, 40);
  CHECK(child == parent);
  CHECK(cache.free_pages() == 7);
  cache.grow(child, 40, 41);
  CHECK(child[0] == parent[0]);
  CHECK(child[1] == parent[1]);
  CHECK(child[2] != parent[2]);
  CHECK(cache.free_pages() == 6);
  CHECK(cache.keys(child[2], 1, 1)[0] == 3.0f);
  const std::vector<float> row(2 * 24, 5.0f);
  cache.write_keys(child, 1, 40, row.data(), 1);
  CHECK(cache.keys(child[2], 1, 0)[8] == 5.0f);
  CHECK(cache.keys(parent[2], 1, 0)[8] == 0.0f);
  // The page is its own now: the next token copies nothing.
  cache.grow(child, 41, 42);
  CHECK(cache.free_pages() == 6);
  cache.check_integrity({&parent, &child});
  cache.release(parent);
  cache.check_integrity({&child});
  cache.release(child);
  CHECK(cache.free_pages() == 10);
}

TEST_CASE("kv cache: a fork at the end of a page shares all and copies nothing") {
  Room room;
  KvPages parent;
  room.cache.grow(parent, 0, 32);
  KvPages child = room.cache.fork(parent, 32);
  room.cache.grow(child, 32, 33);
  CHECK(room.cache.free_pages() == 7);
  CHECK(child.size() == 3);
}

TEST_CASE("kv cache: too few free pages change nothing, the copy of a shared page counted") {
  Room room;
  KvPages parent, rest;
  room.cache.grow(parent, 0, 20);
  room.cache.grow(rest, 0, 16 * 8);
  KvPages child = room.cache.fork(parent, 20);
  const KvPages before = child;
  CHECK_THROWS_WITH(room.cache.grow(child, 20, 21), "the KV cache of 10 pages has 0 free, 1 are needed");
  CHECK(child == before);
  room.cache.check_integrity({&parent, &child, &rest});
}

TEST_CASE("kv cache: owners add up over random forks, growth and ends; a broken count is found") {
  Room room;
  KvCache& cache = room.cache;
  std::mt19937 random(5);
  std::vector<std::pair<KvPages, size_t>> live;
  for (int step = 0; step < 3000; ++step) {
    const size_t one = live.empty() ? 0 : random() % live.size();
    switch (random() % 4) {
      case 0:
        live.push_back({{}, 0});
        break;
      case 1:
        if (!live.empty()) live.push_back({cache.fork(live[one].first, live[one].second), live[one].second});
        break;
      case 2:
        if (live.empty()) break;
        try {
          const size_t tokens = live[one].second + 1 + random() % 20;
          cache.grow(live[one].first, live[one].second, tokens);
          live[one].second = tokens;
        } catch (const Error& error) {
          CHECK(error.code() == "cannot_run");
        }
        break;
      default:
        if (live.empty()) break;
        cache.release(live[one].first);
        live.erase(live.begin() + static_cast<long>(one));
    }
    std::vector<const KvPages*> all;
    for (const auto& [pages, tokens] : live) all.push_back(&pages);
    cache.check_integrity(all);
    if (!live.empty() && !live.back().first.empty()) {
      all.pop_back();
      CHECK_THROWS(cache.check_integrity(all));
    }
  }
}

}  // namespace
}  // namespace sida
