// Behaviour of CudaOps alone. ../ops_test.cc and the files beside it test all devices.
#ifdef SIDA_WITH_CUDA
#include "ops/cuda/attention.h"
#include "ops/cuda/rows.h"
#include "support/ops_fixture.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

TEST_CASE("cuda ops: sequences that share most of their pages fit the uploads of a pass") {
  constexpr size_t kSequences = 32, kShared = 32;
  BatchLimits limits;
  limits.max_batch_tokens = kSequences;
  limits.kv_tokens = (kShared + kSequences) * kPageTokens;
  OpsFixture fixture(DeviceKind::kCuda, decoder_spec(8, 1, 1, 8), limits);
  KvPages prompt;
  fixture.cache().grow(prompt, 0, kShared * kPageTokens);
  std::vector<KvPages> pages;
  for (size_t i = 0; i < kSequences; ++i) {
    pages.push_back(fixture.cache().fork(prompt, kShared * kPageTokens));
    fixture.cache().grow(pages.back(), kShared * kPageTokens, kShared * kPageTokens + 1);
  }
  CHECK(fixture.cache().free_pages() == 0);
  std::vector<SequenceSpan> spans;
  for (size_t i = 0; i < kSequences; ++i) spans.push_back({i, 1, kShared * kPageTokens, &pages[i]});
  fixture.ops().start(0, spans, kSequences);
  fixture.ops().finish();
}

TEST_CASE("cuda ops: logits of a pass's rows, chunk after chunk, need no more uploads than one") {
  BatchLimits limits;
  limits.max_batch_tokens = 1;
  limits.kv_tokens = kPageTokens;
  OpsFixture fixture(DeviceKind::kCuda, decoder_spec(8, 1, 1, 8), limits);
  const TestMatrix head = fixture.matrix(100, 8, kF32Format, 1);
  const std::vector<int32_t> rows(kMaxLogitRows, 0);
  fixture.write(fixture.at().normed, random_floats(8, 2));
  std::vector<float> logits(rows.size() * 100);
  for (int chunk = 0; chunk < 5; ++chunk) fixture.ops().logits(head.panels, rows, {}, logits.data());
  CHECK(same_bits(&logits[0], &logits[(kMaxLogitRows - 1) * 100], 100));
}

TEST_CASE("cuda ops: heads that are too wide are refused") {
  check_error([] { OpsFixture(DeviceKind::kCuda, decoder_spec(8, 1, 1, 600), limits_of(1)); }, {"600", "512"},
              "cannot_run");
}

TEST_CASE("cuda ops: kernels without rows are not launched") {
  const cuda::CacheLayer cache{nullptr, 0, 0, 1, 64, 64, KvFormat::kF32};
  const cuda::PagedBatch empty{};
  cuda::attention(cache, empty, nullptr, {2, 1, {nullptr, 0}, false}, nullptr);
  cuda::write_keys(cache, empty, nullptr, nullptr);
  cuda::write_values(cache, empty, nullptr, nullptr);
  cuda::clip(nullptr, 0, 1, nullptr);
  cuda::rotate(nullptr, {0, 4, 64}, {nullptr, nullptr, 32}, nullptr);
  cuda::rms_norm(nullptr, nullptr, 1e-6f, 0, 768, nullptr, nullptr);
  cuda::layer_norm(nullptr, nullptr, nullptr, 1e-6f, 0, 768, nullptr, nullptr);
  cuda::embed({nullptr, kBf16Format, 768, 100}, nullptr, 0, 1.0f, nullptr, nullptr);
  cuda::add_sinusoids({nullptr, 0, 768}, {nullptr, 384}, nullptr, nullptr);
  cuda::gate_rows({nullptr, 0, 1}, 768, nullptr, nullptr);
  cuda::add_gated_row({nullptr, 0, 2}, nullptr, 768, nullptr, nullptr);
  cuda::take_rows(nullptr, nullptr, 0, 768, 1, nullptr, nullptr);
  require_success(cudaGetLastError());
}

TEST_CASE("cuda ops: heads are prepared in one launch with the bits of their parts") {
  using Shape = std::array<size_t, 3>;
  for (const auto& [kind, shape, format, part] :
       grid(std::vector{QkNorm::kNone, QkNorm::kRow, QkNorm::kHead},
            std::vector<Shape>{{3, 1, 24}, {4, 2, 10}, {2, 2, 7}, {20, 4, 64}},
            std::vector{KvFormat::kF32, KvFormat::kBf16}, std::vector{0, 1, 2, 3})) {
    const auto [heads, kv_heads, dim] = shape;
    CASE(kind, heads, dim, format, part);
    ModelSpec spec = decoder_spec(64, heads, kv_heads, dim);
    for (LayerSpec& layer : spec.stacks[0].layers) layer.self.qk_norm = kind;
    Rope rope{std::vector<float>(part < 2 ? dim / 2 : dim / 4, 0.3f), 1.5f, part == 1};
    spec.stacks[0].positions = rope;
    const AttentionSpec& attention = spec.stacks[0].layers[0].self;
    BatchLimits limits = limits_of(48);
    limits.kv = format;
    AttentionWeights weights{};
    std::vector<std::vector<float>> outputs;
    for (const bool whole : kBoth) {
      OpsFixture fixture(DeviceKind::kCuda, spec, limits);
      weights.query_norm = fixture.upload(random_floats(heads * dim, 1));
      weights.key_norm = fixture.upload(random_floats(kv_heads * dim, 2));
      // Two sequences: past the first page, and of more than one row.
      KvPages first, second;
      fixture.cache().grow(first, 0, 19);
      fixture.cache().grow(second, 0, 3);
      for (const size_t past : {0, 18}) {
        const size_t count = past == 0 ? 18 : 1, own = past == 0 ? 2 : 1, tokens = count + own;
        const SequenceSpan spans[] = {{0, count, past, &first}, {count, own, past / 9, &second}};
        fixture.ops().start(0, spans, tokens);
        const Activations& a = fixture.at();
        const auto seed = static_cast<unsigned>(count);
        fixture.write(a.queries, random_floats(tokens * attention.query_width(), seed));
        fixture.write(a.keys, random_floats(tokens * attention.kv_width(), seed + 1));
        fixture.write(a.values, random_floats(tokens * attention.kv_width(), seed + 2));
        const HeadsTask task{&attention, &weights, 1e-5f, part < 3, 0, tokens};
        whole ? fixture.ops().prepare_heads(task) : fixture.ops().Ops::prepare_heads(task);
        outputs.push_back(fixture.read(a.queries, tokens * attention.query_width()));
        fixture.ops().attend({&attention, 0, false, true, false});
        outputs.push_back(fixture.read(a.queries, tokens * attention.query_width()));
      }
    }
    for (size_t i = 0; i < 4; ++i) CHECK(same_bits(outputs[i], outputs[4 + i]));
  }
}

TEST_CASE("cuda ops: a norm of hidden behind what adds to it has the same bits at any number of rows") {
  constexpr size_t kWide = 300;
  for (const auto& [format, tokens] : grid(std::vector{kF32Format, kBf16Format}, Sizes{1, 5, 40})) {
    CASE(format, tokens);
    OpsFixture fixture(DeviceKind::kCuda, decoder_spec(kWide, 1, 1, 8), limits_of(tokens));
    const TestMatrix w = fixture.matrix(kWide, 8, format, 1);
    const NormWeights norm{fixture.upload(random_floats(kWide, 2))};
    const Activations& a = fixture.at();
    Ops& ops = fixture.ops();
    const Pass pass(fixture, tokens);
    const sida::Product product{w.panels, a.hidden};
    std::vector<std::vector<float>> normed;
    for (const bool apart : kBoth) {
      fixture.write(a.hidden, random_floats(tokens * kWide, 3));
      fixture.write(a.queries, random_floats(tokens * 8, 4));
      ops.linear(a.queries, tokens, {&product, 1}, Epilogue::kAdd);
      if (apart) ops.finish();
      ops.norm(a.hidden, norm, 1e-5f, tokens, kWide, a.normed);
      normed.push_back(fixture.read(a.normed, tokens * kWide));
      normed.push_back(fixture.read(a.hidden, tokens * kWide));
    }
    CHECK(same_bits(normed[0], normed[2]));
    CHECK(same_bits(normed[1], normed[3]));
  }
}

TEST_SUITE_END();

}  // namespace
#endif
