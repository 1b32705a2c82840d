// Every instruction set against the scalar reference, bit for bit, and the reference against float64.
#include "ops/cpu/kernels.h"

#include "core/dtype.h"
#include "support/float64.h"
#include "support/kernel_sets.h"

namespace {

TEST_CASE("kernels: ReLU makes NaN of what is not finite, and changes no finite bit") {
  for (const CpuKernels* kernels : kernel_sets()) {
    CASE(kernels->isa);
    const float weights[32] = {kInfinity, -kInfinity, NAN, -2.0f, 3.0f, 3e38f, -3e38f, 1e-45f};
    const float x = 1.0f;
    std::vector<float> y(32);
    kernels->gemm({&x, 1, 1, reinterpret_cast<const std::byte*>(weights), kF32Format, 1, 32, 0, 1, y.data(), 32,
                   Epilogue::kRelu});
    for (size_t i = 0; i < 3; ++i) CHECK(std::isnan(y[i]));
    CHECK(std::vector<float>(y.begin() + 3, y.begin() + 8) == std::vector<float>{0, 3, 3e38f, 0, 1e-45f});
    for (size_t i = 3; i < 32; ++i) CHECK(!std::signbit(y[i]));
  }
}

TEST_CASE("kernels: SwiGLU is silu(y) · x·W over the whole range of y, NaN where y is not finite") {
  const std::vector<float> gates = {0.0f, -0.0f,  1.0f,    -1.0f, 20.0f,  -20.0f, 86.0f,     -86.0f,     88.5f,
                                    -89,  500.0f, -500.0f, 3e38f, -3e38f, 1e-45f, kInfinity, -kInfinity, NAN};
  const std::vector<float> weights(32, 2.0f);
  const float x = 1.5f;
  for (const CpuKernels* kernels : kernel_sets()) {
    CASE(kernels->isa);
    std::vector<float> y(32);
    std::copy(gates.begin(), gates.end(), y.begin());
    kernels->gemm({&x, 1, 1, reinterpret_cast<const std::byte*>(weights.data()), kF32Format, 1, gates.size(), 0, 1,
                   y.data(), 32, Epilogue::kSwiglu});
    for (size_t i = 0; i < gates.size(); ++i) {
      CASE(gates[i]);
      if (!std::isfinite(gates[i])) {
        CHECK(std::isnan(y[i]));
      } else if (std::abs(gates[i]) < 1e38f) {
        const double g = gates[i], expected = 3 * g / (1 + std::exp(-g));
        CHECK(std::abs(y[i] - expected) <= 1e-6 * std::abs(expected) + 1e-35);
      }
    }
    CHECK(y[13] == 0);
    for (size_t i = gates.size(); i < 32; ++i) CHECK(y[i] == 0);
  }
}

TEST_CASE("kernels: clip clamps, and an infinity does not become a limit") {
  for (const size_t n : {1, 16, 37}) {
    const auto before = random_floats(n, 12);
    for (const CpuKernels* kernels : kernel_sets()) {
      CASE(kernels->isa);
      std::vector<float> x = before;
      kernels->clip(x.data(), n, 0.5f);
      for (size_t i = 0; i < n; ++i) CHECK(x[i] == std::clamp(before[i], -0.5f, 0.5f));
      for (const float bad : {kInfinity, -kInfinity, NAN}) {
        x[n - 1] = bad;
        kernels->clip(x.data(), n, 0.5f);
        CHECK(std::isnan(x[n - 1]));
      }
    }
  }
}

TEST_CASE("kernels: rotate turns the first columns of each head, the same bits in all sets") {
  for (const size_t half : {1, 8, 16, 20, 64}) {
    const size_t rows = 3, stride = 2 * half + 5;
    const auto before = random_floats(rows * stride, 13), angles = random_floats(half, 14);
    std::vector<float> cosines, sines;
    for (const float angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
    const auto x = of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> x = before;
      kernels.rotate(x.data(), rows, stride, half, cosines.data(), sines.data());
      return x;
    });
    for (const auto& [r, j] : grid(first_numbers(rows), first_numbers(half))) {
      const float *from = &before[r * stride], *to = &x[r * stride];
      const double a = from[j], b = from[half + j], c = cosines[j], s = sines[j];
      CHECK(std::abs(to[j] - (a * c - b * s)) < 1e-6);
      CHECK(std::abs(to[half + j] - (b * c + a * s)) < 1e-6);
      CHECK(std::equal(&to[2 * half], &to[stride], &from[2 * half]));
    }
  }
}

TEST_CASE("kernels: softmax and norms agree with float64 and across instruction sets, in place too") {
  for (const size_t n : {1, 2, 15, 16, 17, 64, 100}) {
    CASE(n);
    auto x = random_floats(2 * n, 6);
    for (float& value : x) value *= 20;
    auto shifted = x;
    for (float& value : shifted) value += 5;
    const auto weight = random_floats(n, 7), bias = random_floats(n, 8);
    const auto soft = of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> p(n);
      kernels.softmax(x.data(), n, p.data());
      return p;
    });
    const Doubles expected = softmax64(doubles(x.data(), n));
    for (size_t i = 0; i < n; ++i) CHECK(std::abs(soft[i] - expected[i]) < 1e-6);
    const auto rms = of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> y(n);
      kernels.rms_norm(x.data(), weight.data(), 1e-6f, 1, n, y.data());
      return y;
    });
    const Doubles norm = rms_norm64(doubles(x.data(), n), weight.data(), 1e-6);
    for (size_t i = 0; i < n; ++i) CHECK(rms[i] == doctest::Approx(norm[i]).epsilon(1e-5));
    const auto layer = of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> y(2 * n), in_place = shifted;
      kernels.layer_norm(shifted.data(), weight.data(), bias.data(), 1e-5f, 2, n, y.data());
      kernels.layer_norm(in_place.data(), weight.data(), bias.data(), 1e-5f, 2, n, in_place.data());
      CHECK(same_bits(y, in_place));
      return y;
    });
    const Doubles wanted =
        by_row(shifted, n, [&](const Doubles& row) { return layer_norm64(row, weight.data(), bias.data(), 1e-5); });
    for (size_t i = 0; i < 2 * n; ++i) CHECK(std::abs(layer[i] - wanted[i]) < 2e-5);
  }
}

/// `count` pages of equal size, one after the other.
template <class T>
std::vector<const std::byte*> pages_of(const std::vector<T>& memory, size_t count) {
  std::vector<const std::byte*> pages;
  for (size_t p = 0; p < count; ++p) {
    pages.push_back(reinterpret_cast<const std::byte*>(&memory[p * (memory.size() / count)]));
  }
  return pages;
}

/// `values` rounded to bf16, and the same as floats again.
struct Rounded {
  std::vector<uint16_t> bits;
  std::vector<float> floats;

  explicit Rounded(const std::vector<float>& values) : floats(values.size()) {
    for (const float value : values) bits.push_back(f32_to_bf16(value));
    bf16_to_f32(bits.data(), bits.size(), floats.data());
  }
};

TEST_CASE("kernels: attention over pages in bf16 gives the bits of pages in f32 that hold the rounded numbers") {
  constexpr size_t kDim = 24, kPadded = 32, kRows = 5, kKeys = 40, kPages = 3, kStride = 48;
  const Rounded k(random_floats(kPages * kDim * 16, 9)), v(random_floats(kPages * 16 * kPadded, 10)),
      latent(random_floats(kPages * 16 * kStride, 11));
  const auto q = random_floats(kRows * kDim, 8), latent_q = random_floats(kRows * kStride, 12);
  for (const CpuKernels* kernels : kernel_sets()) {
    const auto outputs = [&](const auto& keys, const auto& values, const auto& rows, KvFormat format) {
      const auto key_pages = pages_of(keys, kPages), value_pages = pages_of(values, kPages),
                 row_pages = pages_of(rows, kPages);
      std::vector<float> out = q, latent_out(kRows * kStride), scratch(4 * kPages * 16);
      AttentionTask task{out.data(), kDim, kRows,   kDim,       kPadded, key_pages.data(), value_pages.data(), kKeys,
                         1,          0.3f, nullptr, out.data(), kDim,    scratch.data(),   kPages * 16};
      task.window = 20;
      task.format = format;
      kernels->attention(task);
      kernels->latent_attention({latent_q.data(), kRows, 32, kStride, row_pages.data(), kKeys, 1, 0.3f,
                                 latent_out.data(), scratch.data(), kPages * 16, format});
      return std::pair{out, latent_out};
    };
    CHECK_MESSAGE((outputs(k.bits, v.bits, latent.bits, KvFormat::kBf16) ==
                   outputs(k.floats, v.floats, latent.floats, KvFormat::kF32)),
                  kernels->isa);
  }
}

TEST_CASE("kernels: attention agrees with float64 and across instruction sets, causal and not, with and without bias") {
  constexpr size_t kDim = 24, kPadded = 32;
  constexpr float kScale = 0.3f;
  for (const auto& [keys, rows, causal, with_bias] : grid(Sizes{1, 5, 16, 17, 50}, Sizes{1, 3, 4, 6}, kBoth, kBoth)) {
    CASE(keys, rows, causal, with_bias);
    const size_t most = keys + (causal ? rows - 1 : 0), pages = (most + 15) / 16, step = causal ? 1 : 0;
    const auto q = random_floats(rows * kDim, 8), k = random_floats(pages * kDim * 16, 9);
    const auto v = random_floats(pages * 16 * kPadded, 10), bias = random_floats(rows + pages * 16 + 32, 11);
    const auto k_pages = pages_of(k, pages), v_pages = pages_of(v, pages);
    const float* center = bias.data() + rows;
    const auto found = of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> out = q, scratch(4 * pages * 16);
      kernels.attention({out.data(), kDim, rows, kDim, kPadded, k_pages.data(), v_pages.data(), keys, step, kScale,
                         with_bias ? center : nullptr, out.data(), kDim, scratch.data(), pages * 16});
      return out;
    });
    for (size_t r = 0; r < rows; ++r) {
      Doubles scores(keys + step * r);
      for (size_t j = 0; j < scores.size(); ++j) {
        for (size_t d = 0; d < kDim; ++d) {
          scores[j] += static_cast<double>(q[r * kDim + d]) * k[(j / 16 * kDim + d) * 16 + j % 16];
        }
        scores[j] *= kScale;
        if (with_bias) scores[j] += center[static_cast<long>(j) - static_cast<long>(r)];
      }
      const Doubles weight = softmax64(scores);
      for (size_t d = 0; d < kDim; ++d) {
        double expected = 0;
        for (size_t j = 0; j < weight.size(); ++j) expected += weight[j] * v[j * kPadded + d];
        REQUIRE(std::abs(found[r * kDim + d] - expected) < 2e-6);
      }
    }
  }
}

TEST_CASE("kernels: a NaN stays a NaN through ReLU, softmax and attention, on every instruction set") {
  for (const CpuKernels* kernels : kernel_sets()) {
    CASE(kernels->isa);
    std::vector<float> weights(64 * 32, NAN), x(64, 1.0f), y(32), logits(20, 1.0f);
    kernels->gemm({x.data(), 64, 1, reinterpret_cast<const std::byte*>(weights.data()), kF32Format, 64, 32, 0, 1,
                   y.data(), 32, Epilogue::kRelu});
    CHECK(std::isnan(y[0]));
    logits[7] = NAN;
    kernels->softmax(logits.data(), 20, logits.data());
    CHECK(std::isnan(logits[0]));
    const std::vector<float> keys(16 * 16, 1.0f);
    std::vector<float> q(16, 1.0f), scratch(64);
    q[3] = NAN;
    const auto pages = pages_of(keys, 1);
    kernels->attention(
        {q.data(), 16, 1, 16, 16, pages.data(), pages.data(), 5, 0, 1, nullptr, q.data(), 16, scratch.data(), 16});
    CHECK(std::isnan(q[0]));
  }
}

}  // namespace
