// Paged attention on the device against the CPU's, and its rows against themselves in other company.
#ifdef SIDA_WITH_CUDA

#include "ops/cuda/attention.h"

#include "support/paged_batches.h"
#include "support/test.h"

namespace {

using Sequences = std::vector<PagedCase::Sequence>;

// Scores of unscaled normal rows reach 4 · sqrt(d_kv), some 60 at 200: exponentials then carry 60 · 2^-23
// twice, and outputs are means of normal values.
constexpr float kTolerance = 5e-5f;

// Around the ends of pages and tiles; `keys` as an encoder has them, the second sequence's tail padding.
const Sequences kRagged = {{1, 0, 1, {}}, {17, 0, 14, {}}, {16, 0, 16, {}}, {33, 0, 33, {}}, {15, 0, 15, {}}};
// A pass that goes on, one row among the parts.
const Sequences kContinued = {{3, 14, 17, {}}, {1, 31, 32, {}}, {1, 32, 33, {}}, {40, 5, 45, {}}, {16, 16, 32, {}}};
const Sequences kContexts = {{2, 3, 15, {}}, {1, 40, 16, {}}, {18, 0, 17, {}}, {5, 9, 33, {}}, {1, 0, 1, {}}};

void check_near(const std::vector<float>& found, const std::vector<float>& expected) {
  float worst = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    REQUIRE(std::isfinite(found[i]));
    worst = std::fmax(worst, std::fabs(found[i] - expected[i]));
  }
  CHECK(worst <= kTolerance);
}

float* floats(std::byte* place) { return reinterpret_cast<float*>(place); }

void check_case(PagedCase& c, bool biased, bool causal) {
  CASE(c.heads, c.shape.heads, c.shape.head_dim, biased, causal);
  c.fill(1);
  const auto q = random_floats(c.tokens * c.width(), 9);
  auto expected = q;
  c.cpu_attention(expected, biased, causal);
  check_near(DeviceBatch(c).attention(q, biased, causal), expected);
}

TEST_CASE("cuda attention: agrees with the CPU's on ragged batches, widths and both kinds") {
  if (!have_cuda_device()) return;
  for (const size_t head_dim : {2, 10, 16, 30, 64, 80, 128, 200}) {
    PagedCase encoder(2, head_dim, kRagged), decoder(2, head_dim, kContinued), cross(2, head_dim, kContexts);
    check_case(encoder, true, false);
    check_case(decoder, true, true);
    check_case(cross, false, false);
  }
}

TEST_CASE("cuda attention: query heads share heads of keys, and scores are scaled before the bias") {
  if (!have_cuda_device()) return;
  for (const size_t head_dim : {16, 64, 128}) {
    for (const auto [heads, kv_heads] : {std::pair<size_t, size_t>{4, 1}, {6, 2}, {4, 4}}) {
      PagedCase encoder(heads, head_dim, kRagged, kv_heads), decoder(heads, head_dim, kContinued, kv_heads);
      encoder.scale = decoder.scale = 0.25f;
      check_case(encoder, true, false);
      check_case(decoder, true, true);
      check_case(decoder, false, true);
    }
  }
}

TEST_CASE("cuda attention: every number of keys around the ends of pages") {
  if (!have_cuda_device()) return;
  Sequences one, some;
  for (const size_t keys : {1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 145}) {
    one.push_back({1, keys - 1, keys, {}});
    some.push_back({2, keys + 3, keys, {}});
  }
  PagedCase decoding(3, 16, one), context(3, 16, some);
  check_case(decoding, true, true);
  check_case(context, true, false);
}

TEST_CASE("cuda attention: thousands of keys") {
  if (!have_cuda_device()) return;
  PagedCase c(2, 64, {{1, 5000, 5001, {}}, {3, 2998, 3001, {}}});
  check_case(c, true, true);
  check_case(c, false, false);
}

TEST_CASE("cuda attention: a row alone has the bits of the same row among others, however a sequence is divided") {
  if (!have_cuda_device()) return;
  for (const auto& [head_dim, causal] : grid(Sizes{10, 64, 128, 144}, kBoth)) {
    CASE(head_dim, causal);
    PagedCase c(4, head_dim, kContinued, 2);
    c.scale = 0.3f;
    c.fill(3);
    const auto q = random_floats(c.tokens * c.width(), 10);
    const auto whole = DeviceBatch(c).attention(q, true, causal);
    std::vector<DeviceBatch::Part> rows, halves;
    for (size_t i = 0; i < c.sequences.size(); ++i) {
      const size_t count = c.sequences[i].count, half = count / 2;
      for (size_t row = 0; row < count; ++row) rows.push_back({i, row, 1});
      halves.push_back({i, half, count - half});
      if (half > 0) halves.push_back({i, 0, half});
    }
    CHECK(same_bits(DeviceBatch(c, rows).attention(q, true, causal), whole));
    CHECK(same_bits(DeviceBatch(c, halves).attention(q, true, causal), whole));
  }
}

TEST_CASE("cuda attention: a NaN reaches the rows that see it, and no other") {
  if (!have_cuda_device()) return;
  PagedCase c(2, 16, {{20, 2, 22, {}}, {4, 0, 4, {}}});
  c.fill(4);
  auto q = random_floats(c.tokens * c.width(), 11);
  const auto sound = DeviceBatch(c).attention(q, true, true);
  // The key and the value of one token, in head 0.
  for (const bool key : {true, false}) {
    const uint32_t page = c.sequences[0].ids()[0];
    float& place = key ? floats(c.cache->keys(page, PagedCase::kLayer, 0))[3 * kPageTokens + 7]
                       : floats(c.cache->values(page, PagedCase::kLayer, 0))[7 * c.cache->head_dim_padded() + 3];
    const float before = std::exchange(place, NAN);
    const auto found = DeviceBatch(c).attention(q, true, true);
    place = before;
    for (size_t i = 0; i < found.size(); ++i) {
      const size_t row = i / c.width(), column = i % c.width();
      // Row r of the first sequence is at position r + 2.
      const bool sees = row >= 5 && row < 20 && column < 16 && (key || column == 3);
      CHECK((sees ? std::isnan(found[i]) : found[i] == sound[i]));
    }
  }
  q[21 * c.width()] = NAN;
  const auto found = DeviceBatch(c).attention(q, true, true);
  for (size_t i = 0; i < found.size(); ++i) {
    const bool broken = i / c.width() == 21 && i % c.width() < 16;
    CHECK((broken ? std::isnan(found[i]) : found[i] == sound[i]));
  }
}

TEST_CASE("cuda attention: bf16 agrees with the CPU's, and rows by themselves have the bits of rows in tiles") {
  if (!have_cuda_device()) return;
  for (const size_t head_dim : {10, 64, 80, 128}) {
    PagedCase c(4, head_dim, kContinued, 2, KvFormat::kBf16);
    check_case(c, true, true);
    const auto q = random_floats(c.tokens * c.width(), 9);
    std::vector<DeviceBatch::Part> rows;
    for (size_t i = 0; i < c.sequences.size(); ++i) {
      for (size_t row = 0; row < c.sequences[i].count; ++row) rows.push_back({i, row, 1});
    }
    CHECK(same_bits(DeviceBatch(c, rows).attention(q, true, true), DeviceBatch(c).attention(q, true, true)));
  }
}

TEST_CASE("cuda attention: keys and values are written where the CPU's cache has them, with its rounding") {
  if (!have_cuda_device()) return;
  for (const auto& [head_dim, format] :
       grid(Sizes{2, 10, 16, 64, 72}, std::vector<KvFormat>{KvFormat::kF32, KvFormat::kBf16})) {
    const size_t heads = head_dim % 3 + 1;
    CASE(head_dim, heads);
    PagedCase c(2 * heads, head_dim, kContinued, heads, format);
    const auto keys = random_floats(c.tokens * c.kv_width(), 12), values = random_floats(c.tokens * c.kv_width(), 13);
    const DeviceBatch batch(c);
    const DeviceCopy<float> key_rows(keys), value_rows(values);
    cuda::write_keys(batch.cache, batch.view(), key_rows.data(), nullptr);
    cuda::write_values(batch.cache, batch.view(), value_rows.data(), nullptr);
    size_t row = 0;
    for (const PagedCase::Sequence& s : c.sequences) {
      c.cache->write_keys(s.pages, PagedCase::kLayer, s.past, &keys[row * c.kv_width()], s.count);
      c.cache->write_values(s.pages, PagedCase::kLayer, s.past, &values[row * c.kv_width()], s.count);
      row += s.count;
    }
    CHECK(same_bits(batch.memory.read(), c.cache_copy()));
  }
}

TEST_CASE("cuda attention: a head that is too wide is refused, an empty batch launches nothing") {
  if (!have_cuda_device()) return;
  const PagedCase c(2, 300, kRagged);
  const DeviceBatch batch(c);
  check_error([&] { batch.attention({}, false, false); }, {"300", "256"}, "cannot_run");
  cuda::PagedBatch empty = batch.view();
  empty.tile_count = 0;
  cuda::attention(batch.cache, empty, nullptr, {2, 1, batch.bias, false}, nullptr);
  cuda::write_keys(batch.cache, empty, nullptr, nullptr);
  cuda::write_values(batch.cache, empty, nullptr, nullptr);
  require_success(cudaGetLastError());
}

}  // namespace
#endif
