#include "kv/kv_cache.h"

#include "core/dtype.h"
#include "support/test.h"

namespace {

struct Room {
  std::unique_ptr<Backend> backend = make_cpu_backend();
  DeviceMemory memory{*backend, 64 << 20};
  KvCache cache;

  explicit Room(const KvShape& shape = {2, 2, 24}, const KvRoom& tokens = 160) : cache(memory, shape, tokens) {}
};

const float* floats(const std::byte* place) { return reinterpret_cast<const float*>(place); }

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
  CHECK(child[0].at(0) == parent[0].at(0));
  CHECK(child[0].at(1) == parent[0].at(1));
  CHECK(child[0].at(2) != parent[0].at(2));
  CHECK(cache.free_pages() == 6);
  CHECK(floats(cache.keys(child[0].at(2), 1, 1))[0] == 3.0f);
  const std::vector<float> row(2 * 24, 5.0f);
  cache.write_keys(child, 1, 40, row.data(), 1);
  CHECK(floats(cache.keys(child[0].at(2), 1, 0))[8] == 5.0f);
  CHECK(floats(cache.keys(parent[0].at(2), 1, 0))[8] == 0.0f);
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
  CHECK(child[0].end() == 3);
}

TEST_CASE("kv cache: a recurrent state is one page of a sequence, which a writer copies where others own it too") {
  KvShape shape{2, 2, 24};
  shape.states = {0, 40};
  Room room(shape, KvRoom(160, 160, 1, 2));
  KvCache& cache = room.cache;
  REQUIRE(cache.recurrent());
  const size_t group = cache.group_of(1);
  CHECK(cache.groups()[group].page_bytes == 48 * sizeof(float));
  KvPages parent;
  cache.grow(parent, 0, 40);
  cache.grow(parent, 40, 90);
  CHECK(cache.pages_in_use(group) == 1);
  cache.state(parent[group].at(0), 1)[39] = 7;
  KvPages child = cache.fork(parent, 90);
  CHECK(cache.pages_in_use(group) == 1);
  cache.grow(child, 90, 91);
  CHECK(child[group].at(0) != parent[group].at(0));
  CHECK(cache.state(child[group].at(0), 1)[39] == 7);
  cache.check_held(child, 91);
  cache.check_integrity({&parent, &child});
  // A third would need a state of its own, and pages of keys alone do not help.
  KvPages third;
  CHECK_THROWS_WITH(cache.grow(third, 0, 1), "the KV cache of 2 recurrent states has 0 free, 1 are needed");
  KvPages shared = cache.fork(parent, 90);
  CHECK_THROWS(cache.grow(shared, 90, 91));
  cache.release(parent);
  cache.grow(shared, 90, 91);
  CHECK(cache.state(shared[group].at(0), 1)[39] == 7);
  cache.release(shared);
  cache.release(child);
  CHECK(cache.pages_in_use(group) == 0);
  CHECK(cache.free_pages() == 10);
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
    if (!live.empty() && live.back().second > 0) {
      all.pop_back();
      CHECK_THROWS(cache.check_integrity(all));
    }
  }
}

/// Layers 0 and 2 see all keys, layers 1 and 3 the last 20.
KvShape mixed_shape(KvFormat format = KvFormat::kF32) {
  return {4, 2, 24, false, format, {KvShape::kNoWindow, 20, KvShape::kNoWindow, 20}};
}

TEST_CASE("kv layout: layers with a window have the pages of a window and of the largest pass, the others all") {
  const KvLayout layout(mixed_shape(), {1600, 32, 1});
  REQUIRE(layout.groups.size() == 2);
  CHECK(layout.groups[0].pages == 100);
  // 19 keys and 32 new tokens touch 5 pages at most.
  CHECK(layout.groups[1].pages == 5);
  const uint64_t layer_bytes = (2 * 24 * 16 + 2 * 16 * 32) * sizeof(float);
  CHECK(layout.groups[0].page_bytes == 2 * layer_bytes);
  CHECK(layout.bytes == 105 * 2 * layer_bytes);
  CHECK(KvLayout(mixed_shape(KvFormat::kBf16), {1600, 32, 1}).bytes == layout.bytes / 2);
  // Each further sequence has a window, and may begin a page of its own.
  CHECK(KvLayout(mixed_shape(), {1600, 32, 3}).groups[1].pages == 13);
  // No more than all, and no group for a window that no sequence outgrows.
  CHECK(KvLayout(mixed_shape(), {1600, 32, 100}).groups[1].pages == 100);
  CHECK(KvLayout(mixed_shape(), {20, 32, 1}).groups.size() == 1);
}

TEST_CASE("kv cache: layers with other heads have room for these, in one group and in two") {
  KvShape shape = mixed_shape();
  shape.by_layer = {{2, 24}, {1, 40}, {2, 24}, {1, 40}};
  const uint64_t usual = (2 * 24 * 16 + 2 * 16 * 32) * sizeof(float), wide = (40 * 16 + 16 * 48) * sizeof(float);
  const KvLayout layout(shape, {1600, 32, 1});
  CHECK(layout.groups[0].page_bytes == 2 * usual);
  CHECK(layout.groups[1].page_bytes == 2 * wide);
  // No group for a window that no sequence outgrows.
  Room room(shape, {20, 32, 1});
  KvCache& cache = room.cache;
  REQUIRE(cache.groups().size() == 1);
  CHECK(cache.groups()[0].page_bytes == 2 * usual + 2 * wide);
  KvPages pages;
  cache.grow(pages, 0, 20);
  for (size_t layer = 0; layer < 4; ++layer) {
    const std::vector<float> row(cache.layer(layer).heads * cache.layer(layer).head_dim, static_cast<float>(layer + 1));
    cache.write_keys(pages, layer, 19, row.data(), 1);
    cache.write_values(pages, layer, 19, row.data(), 1);
  }
  for (size_t layer = 0; layer < 4; ++layer) {
    const size_t head = shape.heads_of(layer).heads - 1, columns = shape.heads_of(layer).head_dim;
    const auto number = static_cast<float>(layer + 1);
    CHECK(floats(cache.keys(pages[0].at(1), layer, head))[(columns - 1) * 16 + 3] == number);
    CHECK(floats(cache.values(pages[0].at(1), layer, head))[3 * ((columns + 15) / 16 * 16) + columns - 1] == number);
  }
}

TEST_CASE("kv cache: pages behind a window are given up, layers without a window keep theirs") {
  Room room(mixed_shape(), {160, 32, 1});
  KvCache& cache = room.cache;
  KvPages pages;
  for (size_t past = 0; past < 160; past += 32) {
    cache.grow(pages, past, past + 32);
    cache.drop_unseen(pages, past + 32);
    cache.check_held(pages, past + 32);
    cache.check_integrity({&pages});
  }
  CHECK(pages[0].ids.size() == 10);
  // The next token, at 160, sees keys from 141 on.
  CHECK(pages[1].first == 8);
  CHECK(pages[1].ids.size() == 2);
  CHECK(cache.pages_in_use(1) == 2);
  CHECK(cache.free_pages() == 0);
  CHECK_THROWS_WITH(cache.grow(pages, 160, 161), "a sequence of 161 tokens exceeds the KV cache of 10 pages");
  CHECK_THROWS(cache.check_held(pages, 120));
  cache.release(pages);
  CHECK(cache.free_pages() == 10);
  CHECK(cache.pages_in_use(1) == 0);
}

TEST_CASE("kv cache: forks keep the pages that their parent gives up, and copy what they share before they write") {
  Room room(mixed_shape(), {320, 40, 4});
  KvCache& cache = room.cache;
  KvPages parent;
  cache.grow(parent, 0, 40);
  const std::vector<float> rows(40 * 2 * 24, 3.0f);
  cache.write_keys(parent, 1, 0, rows.data(), 40);
  cache.drop_unseen(parent, 40);
  CHECK(parent[1].first == 1);
  KvPages child = cache.fork(parent, 40);
  cache.grow(parent, 40, 80);
  cache.drop_unseen(parent, 80);
  CHECK(parent[1].first == 3);
  cache.check_held(child, 40);
  cache.check_integrity({&parent, &child});
  const uint32_t kept = child[1].at(2);
  cache.grow(child, 40, 41);
  // The parent wrote into a copy of the page they shared, so the child's is its own.
  CHECK(child[1].at(2) == kept);
  CHECK(floats(cache.keys(child[1].at(1), 1, 1))[0] == 3.0f);
  CHECK(floats(cache.keys(child[1].at(2), 1, 1))[7] == 3.0f);
  KvPages second = cache.fork(child, 41);
  cache.grow(second, 41, 42);
  CHECK(second[1].at(2) != kept);
  CHECK(floats(cache.keys(second[1].at(2), 1, 1))[7] == 3.0f);
  cache.check_integrity({&parent, &child, &second});
  for (KvPages* pages : {&parent, &child, &second}) cache.release(*pages);
  CHECK(cache.free_pages() == cache.pages());
}

TEST_CASE("kv cache: windowed pages suffice for every division of passes among as many sequences as planned") {
  std::mt19937 random(7);
  for (const auto& [window, sequences] : grid(Sizes{1, 2, 16, 17, 20}, Sizes{1, 3})) {
    CASE(window, sequences);
    constexpr size_t kPass = 24;
    Room own({1, 1, 16, false, KvFormat::kF32, {window}}, {4096, kPass, sequences});
    KvCache& cache = own.cache;
    std::vector<KvPages> pages(sequences);
    std::vector<size_t> lengths(sequences, 0);
    size_t most = 0;
    for (int pass = 0; pass < 400; ++pass) {
      size_t room = pass % 2 == 0 ? kPass : sequences + random() % (kPass - sequences);
      for (size_t i = 0; i < sequences; ++i) {
        const size_t left = sequences - 1 - i;
        const size_t count = i + 1 == sequences ? room : 1 + random() % (room - left);
        cache.grow(pages[i], lengths[i], lengths[i] + count);
        lengths[i] += count;
        room -= count;
      }
      most = std::max(most, cache.pages_in_use(0));
      for (size_t i = 0; i < sequences; ++i) {
        cache.drop_unseen(pages[i], lengths[i]);
        if (lengths[i] + kPass > 4096) {
          cache.release(pages[i]);
          pages[i].clear();
          lengths[i] = 0;
        }
      }
    }
    if (sequences == 1) CHECK(most == cache.groups()[0].pages);
    for (KvPages& each : pages) cache.release(each);
  }
}

TEST_CASE("kv cache: q8_0 holds blocks of codes with a scale of their own, and NaN for what is not finite") {
  constexpr size_t kWidth = 64;
  Room paged({1, 2, kWidth, false, KvFormat::kQ8_0}, 32), latent_rows({1, 1, kWidth, true, KvFormat::kQ8_0}, 32);
  KvCache &cache = paged.cache, &rows = latent_rows.cache;
  CHECK(cache.groups()[0].page_bytes == 2 * 2 * 16 * (kWidth + kWidth / 32 * 2));
  KvPages pages, latent;
  cache.grow(pages, 0, 20);
  rows.grow(latent, 0, 20);
  std::vector<float> row(2 * kWidth, 0);
  for (size_t i = 0; i < kWidth; ++i) row[kWidth + i] = static_cast<float>(i) - 40;  // of head 1
  row[kWidth + 63] = NAN;
  cache.write_keys(pages, 0, 18, row.data(), 1);
  cache.write_values(pages, 0, 18, row.data(), 1);
  rows.write_row(latent, 0, 18, 0, row.data() + kWidth, 32);
  rows.write_row(latent, 0, 18, 32, row.data() + kWidth, 32);
  const auto value = [](const std::byte* part, size_t code, size_t scale) {
    const auto* scales = reinterpret_cast<const uint16_t*>(part + kWidth * 16);
    return static_cast<float>(static_cast<int8_t>(part[code])) * bf16_to_f32(scales[scale]);
  };
  const std::byte* keys = cache.keys(pages[0].at(1), 0, 1);
  const std::byte* values = cache.values(pages[0].at(1), 0, 1);
  const std::byte* latents = rows.rows(latent[0].at(1), 0);
  for (size_t i = 0; i < kWidth; ++i) {
    CASE(i);
    const float key = value(keys, i * 16 + 2, i / 32 * 16 + 2), kept = value(values, 2 * kWidth + i, 2 * 2 + i / 32);
    if (i >= 32) {
      CHECK(std::isnan(key));
      CHECK(std::isnan(kept));
    } else {
      // Half of a step, of a scale that bf16 rounds by at most 2^-8.
      CHECK(std::fabs(key - row[kWidth + i]) <= 0.51 * 40 / 127 + 40.0 / 256);
      CHECK(key == kept);
    }
    CHECK(value(latents, 2 * kWidth + i, 2 * 2 + i / 32) == value(keys, i % 32 * 16 + 2, 2));
    CHECK(value(cache.keys(pages[0].at(1), 0, 0), i * 16 + 2, i / 32 * 16 + 2) == 0);
  }
}

TEST_CASE("kv cache: bf16 holds keys, values and latent rows rounded to the nearest") {
  const auto bits = [](const std::byte* place) { return reinterpret_cast<const uint16_t*>(place); };
  Room paged({1, 1, 16, false, KvFormat::kBf16}, 32), latent_rows({1, 1, 24, true, KvFormat::kBf16}, 32);
  KvCache &cache = paged.cache, &rows = latent_rows.cache;
  KvPages pages, latent;
  cache.grow(pages, 0, 2);
  rows.grow(latent, 0, 2);
  std::vector<float> row(24, 1.00390625f);  // 1 + 2^-8: a tie, which goes to the even 1
  row[1] = 1.01171875f;                     // 1 + 3 · 2^-8: a tie, which goes to 1 + 2^-6
  cache.write_keys(pages, 0, 1, row.data(), 1);
  cache.write_values(pages, 0, 1, row.data(), 1);
  rows.write_row(latent, 0, 1, 2, row.data(), 2);
  const std::byte* keys = cache.keys(pages[0].at(0), 0, 0);
  CHECK(bits(keys)[1] == 0x3f80);
  CHECK(bits(keys)[16 + 1] == 0x3f82);
  CHECK(bits(cache.values(pages[0].at(0), 0, 0))[16 + 1] == 0x3f82);
  CHECK(bits(rows.rows(latent[0].at(0), 0))[32 + 3] == 0x3f82);
}

TEST_CASE("kv cache: an encoder alone has the keys of one layer, which are not rounded") {
  ModelSpec spec;
  spec.stacks.push_back({"encoder", false, Rope{}, {}});
  spec.stacks[0].layers.assign(3, {{.heads = 2, .kv_heads = 2, .head_dim = 4}, std::nullopt, FfnSpec{}});
  const KvShape shape = KvShape::of(spec, KvFormat::kBf16);
  CHECK(shape.layers == 1);
  CHECK(shape.format == KvFormat::kF32);
  spec.stacks[0].causal = true;
  CHECK(KvShape::of(spec, KvFormat::kBf16).format == KvFormat::kBf16);
}

}  // namespace
