// The row kernels against the CPU's.
#ifdef SIDA_WITH_CUDA

#include "ops/cuda/rows.h"

#include "support/device_copy.h"
#include "support/kernel_sets.h"
#include "support/test.h"
#include "support/weight_formats.h"

namespace {

// Both sum n squares in f32, in other orders: a few roundings of the sum, halved by the root.
constexpr float kNormTolerance = 1e-6f;

std::vector<float> device_norm(const std::vector<float>& x, const std::vector<float>& weight) {
  const size_t n = weight.size();
  const DeviceCopy<float> from(x), weights(weight), y(std::vector<float>(x.size(), NAN));
  cuda::rms_norm(from.data(), weights.data(), 1e-6f, x.size() / n, n, y.data(), nullptr);
  cuda::rms_norm(from.data(), weights.data(), 1e-6f, x.size() / n, n, from.data(), nullptr);
  CHECK(same_bits(from.read(), y.read()));
  return y.read();
}

TEST_CASE("cuda rows: rms_norm, in place or not, is the CPU's, and a row alone is the same row among others") {
  if (!have_cuda_device()) return;
  for (const auto& [n, rows] : grid(Sizes{1, 3, 4, 33, 64, 100, 768, 1028, 4100}, Sizes{1, 5, 18})) {
    CASE(n, rows);
    const auto x = random_floats(rows * n, 1), weight = random_floats(n, 2);
    std::vector<float> expected(rows * n);
    cpu_kernels_named("scalar")->rms_norm(x.data(), weight.data(), 1e-6f, rows, n, expected.data());
    const auto found = device_norm(x, weight);
    float worst = 0;
    for (size_t i = 0; i < rows * n; ++i) {
      worst = std::fmax(worst, std::fabs(found[i] - expected[i]) / (std::fabs(expected[i]) + 1e-30f));
      REQUIRE(std::isfinite(found[i]));
    }
    CHECK(worst <= kNormTolerance);
    for (size_t row = 0; row < rows; ++row) {
      const std::vector<float> alone(x.begin() + static_cast<long>(row * n),
                                     x.begin() + static_cast<long>((row + 1) * n));
      const std::vector<float> among(found.begin() + static_cast<long>(row * n),
                                     found.begin() + static_cast<long>((row + 1) * n));
      CHECK(same_bits(device_norm(alone, weight), among));
    }
  }
}

TEST_CASE("cuda rows: a NaN in a row makes the whole row NaN, and no other") {
  if (!have_cuda_device()) return;
  constexpr size_t n = 100;
  auto x = random_floats(3 * n, 1);
  const auto weight = random_floats(n, 2);
  const auto sound = device_norm(x, weight);
  x[n + 57] = NAN;
  const auto found = device_norm(x, weight);
  for (size_t i = 0; i < 3 * n; ++i) {
    if (i / n == 1) {
      CHECK(std::isnan(found[i]));
    } else {
      CHECK(found[i] == sound[i]);
    }
  }
}

TEST_CASE("cuda rows: embed gives the bits of read_panel_row, in every format") {
  if (!have_cuda_device()) return;
  constexpr size_t n = 70;
  for (const auto& [format, any] : grid(all_formats(), Sizes{1, 2, 5, 7, 12, 30, 64, 100, 131, 768})) {
    const size_t k = inputs_for(format, any);
    CASE(format, k);
    const std::vector<std::byte> packed = random_panels(format, n, k, 3);
    const std::vector<int32_t> ids = {0, 69, 31, 32, 5, 5, 64, 63};
    std::vector<float> expected(ids.size() * k);
    for (size_t i = 0; i < ids.size(); ++i) {
      read_panel_row({packed.data(), format, k, n}, static_cast<size_t>(ids[i]), &expected[i * k]);
    }
    const DeviceCopy<std::byte> weights(packed);
    const DeviceCopy<int32_t> rows(ids);
    const DeviceCopy<float> y(std::vector<float>(expected.size(), NAN));
    cuda::embed({weights.data(), format, k, n}, rows.data(), ids.size(), 1.0f, y.data(), nullptr);
    CHECK(same_bits(y.read(), expected));
  }
}

TEST_CASE("cuda rows: take_rows copies rows in any order, scaled") {
  if (!have_cuda_device()) return;
  for (const size_t n : {1, 6, 768, 1030}) {
    const std::vector<int32_t> ids = {4, 0, 4, 2};
    const auto x = random_floats(5 * n, 4);
    std::vector<float> expected;
    for (const int32_t id : ids) {
      for (size_t i = 0; i < n; ++i) expected.push_back(x[static_cast<size_t>(id) * n + i] * 0.3f);
    }
    const DeviceCopy<float> from(x), y(std::vector<float>(expected.size(), NAN));
    const DeviceCopy<int32_t> rows(ids);
    cuda::take_rows(from.data(), rows.data(), ids.size(), n, 0.3f, y.data(), nullptr);
    CHECK(same_bits(y.read(), expected));
  }
}

TEST_CASE("cuda rows: clip has the CPU's bits, and what is not finite becomes NaN") {
  if (!have_cuda_device()) return;
  auto x = random_floats(300, 5);
  x[7] = 0.5f, x[8] = -0.5f, x[9] = INFINITY, x[10] = -INFINITY, x[11] = NAN;
  const DeviceCopy<float> clipped(x);
  cuda::clip(clipped.data(), x.size(), 0.5f, nullptr);
  const auto found = clipped.read();
  cpu_kernels_named("scalar")->clip(x.data(), x.size(), 0.5f);
  for (size_t i = 0; i < x.size(); ++i) {
    CASE(i);
    CHECK(std::isnan(found[i]) == (i >= 9 && i <= 11));
    if (!std::isnan(found[i])) CHECK(found[i] == x[i]);
  }
}

TEST_CASE("cuda rows: rotate has the CPU's bits, for all of a head and for a part of it") {
  if (!have_cuda_device()) return;
  constexpr size_t tokens = 5;
  for (const auto& [heads, head_dim] : grid(Sizes{1, 3, 40}, Sizes{2, 10, 64, 128})) {
    for (const size_t half : {head_dim / 2, (head_dim + 2) / 4}) {
      CASE(heads, head_dim, half);
      auto x = random_floats(tokens * heads * head_dim, 6);
      const auto cosines = random_floats(tokens * half, 7), sines = random_floats(tokens * half, 8);
      const DeviceCopy<float> turned(x), cosine_rows(cosines), sine_rows(sines);
      cuda::rotate(turned.data(), {tokens, heads, head_dim}, {cosine_rows.data(), sine_rows.data(), half}, nullptr);
      for (size_t token = 0; token < tokens; ++token) {
        cpu_kernels_named("scalar")->rotate(&x[token * heads * head_dim], heads, head_dim, half, &cosines[token * half],
                                            &sines[token * half]);
      }
      CHECK(same_bits(turned.read(), x));
    }
  }
}

TEST_CASE("cuda rows: zero rows launch nothing") {
  if (!have_cuda_device()) return;
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

}  // namespace
#endif
