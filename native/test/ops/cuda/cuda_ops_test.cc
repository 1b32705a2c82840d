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

TEST_SUITE_END();

}  // namespace
#endif
