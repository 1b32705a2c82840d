// Behaviour of CudaOps alone. ../ops_test.cc and the files beside it test all devices.
#ifdef SIDA_WITH_CUDA
#include "support/ops_fixture.h"
#include "support/test.h"

namespace {

TEST_CASE("cuda ops: sequences that share most of their pages fit the uploads of a pass") {
  if (!have_cuda_device()) return;
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
  if (!have_cuda_device()) return;
  BatchLimits limits;
  limits.max_batch_tokens = 1;
  limits.kv_tokens = kPageTokens;
  OpsFixture fixture(DeviceKind::kCuda, decoder_spec(8, 1, 1, 8), limits);
  const TestMatrix head = fixture.matrix(100, 8, kF32Format, 1);
  const std::vector<int32_t> rows(kMaxLogitRows, 0);
  fixture.write(fixture.at().normed, random_floats(8, 2));
  std::vector<float> logits(rows.size() * 100);
  for (int chunk = 0; chunk < 5; ++chunk) fixture.ops().logits(head.panels, rows, 1, logits.data());
  CHECK(same_bits(&logits[0], &logits[(kMaxLogitRows - 1) * 100], 100));
}

}  // namespace
#endif
