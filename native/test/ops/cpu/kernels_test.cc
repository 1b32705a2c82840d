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

// ../ops_test.cc compares one set with float64.
TEST_CASE("kernels: clip, rotate, softmax and norms have the same bits in all sets, in place too") {
  for (const size_t n : {1, 2, 15, 16, 17, 37, 64, 100}) {
    CASE(n);
    auto x = random_floats(3 * (2 * n + 5), 6);
    for (float& value : x) value *= 20;
    const auto weight = random_floats(n, 7), bias = random_floats(n, 8);
    const auto in_sets = [&](const std::function<void(const CpuKernels&, const float*, float*)>& run) {
      return of_all_sets([&](const CpuKernels& kernels) {
        std::vector<float> y = x, in_place = x;
        run(kernels, x.data(), y.data());
        run(kernels, in_place.data(), in_place.data());
        CHECK(same_bits(y, in_place));
        return y;
      });
    };
    const auto soft = in_sets([&](const CpuKernels& k, const float* from, float* to) { k.softmax(from, n, to); });
    const Doubles expected = softmax64(doubles(x.data(), n));
    for (size_t i = 0; i < n; ++i) CHECK(std::abs(soft[i] - expected[i]) < 1e-6);
    in_sets(
        [&](const CpuKernels& k, const float* from, float* to) { k.rms_norm(from, weight.data(), 1e-6f, 2, n, to); });
    in_sets([&](const CpuKernels& k, const float* from, float* to) {
      k.layer_norm(from, weight.data(), bias.data(), 1e-5f, 2, n, to);
    });
    in_sets([&](const CpuKernels& k, const float* from, float* to) { k.rms_norm(from, nullptr, 1e-6f, 2, n, to); });
    of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> y = x;
      kernels.rotate(y.data(), 3, 2 * n + 5, n, weight.data(), bias.data());
      return y;
    });
    for (const float last : {x[n - 1], kInfinity, -kInfinity, NAN}) {
      x[n - 1] = last;
      const auto clipped = of_all_sets([&](const CpuKernels& kernels) {
        std::vector<float> y = x;
        kernels.clip(y.data(), n, 0.5f);
        return y;
      });
      for (size_t i = 0; i + 1 < n; ++i) CHECK(clipped[i] == std::clamp(x[i], -0.5f, 0.5f));
      CHECK((std::isfinite(last) ? clipped[n - 1] == std::clamp(last, -0.5f, 0.5f) : std::isnan(clipped[n - 1])));
      const auto capped = of_all_sets([&](const CpuKernels& kernels) {
        std::vector<float> y = x;
        kernels.soft_cap(y.data(), n, 3.0f);
        return y;
      });
      for (size_t i = 0; i + 1 < n; ++i) CHECK(std::abs(capped[i] - 3 * std::tanh(x[i] / 3.0)) < 1e-6);
      CHECK(std::isfinite(capped[n - 1]) == std::isfinite(last));
    }
  }
}

TEST_CASE("kernels: convolutions are those of float64, and have the same bits in all sets, in one pass or in two") {
  for (const auto& [n, taps] : grid(Sizes{1, 15, 16, 37}, Sizes{1, 2, 4, 16})) {
    CASE(n, taps);
    constexpr size_t kRows = 9;
    const auto x = random_floats(kRows * n, 3), weight = random_floats(n * taps, 4);
    const auto in_parts = [&](const CpuKernels& kernels, size_t part) {
      std::vector<float> y = x, kept((taps - 1) * n, NAN);
      for (size_t row = 0; row < kRows; row += part) {
        ConvolutionTask task{&y[row * n], n, std::min(part, kRows - row), weight.data(), taps, kept.data(), row == 0,
                             0,           n};
        kernels.convolve(task);
      }
      y.insert(y.end(), kept.begin(), kept.end());
      return y;
    };
    const auto whole = of_all_sets([&](const CpuKernels& kernels) { return in_parts(kernels, kRows); });
    for (const size_t part : {1, 2, 5}) CHECK(same_bits(in_parts(cpu_kernels(), part), whole));
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < n; ++column) {
        double sum = 0;
        for (size_t i = 0; i < taps && i <= row; ++i) {
          sum += static_cast<double>(weight[column * taps + taps - 1 - i]) * x[(row - i) * n + column];
        }
        CHECK(std::abs(whole[row * n + column] - sum / (1 + std::exp(-sum))) < 1e-5);
      }
    }
  }
}

TEST_CASE("kernels: a delta rule is that of float64, and has the same bits in all sets, in one pass or in two") {
  for (const auto& [key_dim, value_dim] : grid(Sizes{1, 8, 33}, Sizes{1, 16, 20, 70})) {
    CASE(key_dim, value_dim);
    constexpr size_t kRows = 7;
    const size_t stride = (value_dim + 15) / 16 * 16;
    const auto in_parts = [&](const CpuKernels& kernels, size_t part) {
      auto queries = random_floats(kRows * key_dim, 5), keys = random_floats(kRows * key_dim, 6);
      auto values = random_floats(kRows * value_dim, 7);
      kernels.unit_rows(queries.data(), kRows, key_dim, 0.5f);
      kernels.unit_rows(keys.data(), kRows, key_dim, 1);
      auto betas = random_floats(kRows, 8), decays = random_floats(kRows, 9);
      for (float& beta : betas) beta = std::abs(beta);
      for (float& decay : decays) decay = std::exp(-std::abs(decay));
      std::vector<float> state(key_dim * stride, NAN);
      for (size_t row = 0; row < kRows; row += part) {
        kernels.delta_rule({&queries[row * key_dim], &keys[row * key_dim], key_dim, std::min(part, kRows - row),
                            key_dim, value_dim, &values[row * value_dim], value_dim, &betas[row], &decays[row], 1,
                            state.data(), stride, row == 0});
      }
      values.insert(values.end(), state.begin(), state.end());
      return values;
    };
    const auto whole = of_all_sets([&](const CpuKernels& kernels) { return in_parts(kernels, kRows); });
    for (const size_t part : {1, 3}) CHECK(same_bits(in_parts(cpu_kernels(), part), whole));
    const auto queries = random_floats(kRows * key_dim, 5), keys = random_floats(kRows * key_dim, 6);
    const auto values = random_floats(kRows * value_dim, 7), betas = random_floats(kRows, 8);
    const auto decays = random_floats(kRows, 9);
    Doubles state(key_dim * value_dim);
    const auto unit = [&](const std::vector<float>& rows, size_t row, size_t i, double length) {
      double squares = 1e-6;
      for (size_t j = 0; j < key_dim; ++j) squares += std::pow(static_cast<double>(rows[row * key_dim + j]), 2);
      return rows[row * key_dim + i] * length / std::sqrt(squares);
    };
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < value_dim; ++column) {
        double known = 0, answer = 0;
        for (size_t i = 0; i < key_dim; ++i) {
          state[i * value_dim + column] *= std::exp(-std::abs(static_cast<double>(decays[row])));
          known += state[i * value_dim + column] * unit(keys, row, i, 1);
        }
        const double change = (values[row * value_dim + column] - known) * std::abs(static_cast<double>(betas[row]));
        for (size_t i = 0; i < key_dim; ++i) {
          state[i * value_dim + column] += change * unit(keys, row, i, 1);
          answer += state[i * value_dim + column] * unit(queries, row, i, 0.5);
        }
        CHECK(std::abs(whole[row * value_dim + column] - answer) < 1e-5);
      }
    }
  }
}

TEST_CASE("kernels: gates are sigmoids and SiLUs, with the same bits in all sets") {
  for (const size_t n : {1, 16, 37}) {
    const auto x = random_floats(n, 1), logits = random_floats(n, 2);
    for (const bool silu : kBoth) {
      CASE(n, silu);
      const auto gated = of_all_sets([&](const CpuKernels& kernels) {
        std::vector<float> y = x;
        (silu ? kernels.gate_silu : kernels.gate_sigmoid)(logits.data(), y.data(), n);
        return y;
      });
      for (size_t i = 0; i < n; ++i) {
        const double logit = logits[i], gate = (silu ? logit : 1) / (1 + std::exp(-logit));
        CHECK(std::abs(gated[i] - gate * x[i]) < 1e-6);
      }
    }
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

/// `pages` parts of pages in q8_0, and the same as floats. `tokens_inside`: [width][16], not [16][width].
struct Blocks {
  std::vector<std::byte> codes;
  std::vector<float> floats;

  Blocks(size_t pages, size_t width, bool tokens_inside, unsigned seed) {
    std::mt19937 random(seed);
    const size_t elements = width * kPageTokens;
    for (size_t p = 0; p < pages; ++p) {
      const size_t begin = codes.size();
      for (size_t i = 0; i < elements; ++i) codes.push_back(static_cast<std::byte>(random() % 255 - 127));
      std::vector<float> scales;
      for (size_t i = 0; i < elements / kKvBlock; ++i) {
        const uint16_t bits = f32_to_bf16(static_cast<float>(1 + random() % 1000) / 5e4f);
        scales.push_back(bf16_to_f32(bits));
        codes.push_back(static_cast<std::byte>(bits & 255));
        codes.push_back(static_cast<std::byte>(bits >> 8));
      }
      for (size_t i = 0; i < elements; ++i) {
        const size_t token = tokens_inside ? i % kPageTokens : i / width;
        const size_t block = (tokens_inside ? i / kPageTokens : i % width) / kKvBlock;
        const size_t scale = tokens_inside ? block * kPageTokens + token : token * (width / kKvBlock) + block;
        floats.push_back(static_cast<float>(static_cast<int8_t>(codes[begin + i])) * scales[scale]);
      }
    }
  }
};

TEST_CASE("kernels: attention over narrow pages gives the bits of pages in f32 that hold the rounded numbers") {
  constexpr size_t kDim = 24, kPadded = 32, kRows = 5, kKeys = 40, kPages = 3, kStride = 48;
  const Rounded k(random_floats(kPages * kDim * 16, 9)), v(random_floats(kPages * 16 * kPadded, 10)),
      latent(random_floats(kPages * 16 * kStride, 11));
  const Blocks k8(kPages, kPadded, true, 13), v8(kPages, kPadded, false, 14), latent8(kPages, 64, false, 15);
  const auto q = random_floats(kRows * kPadded, 8), latent_q = random_floats(kRows * 64, 12);
  for (const CpuKernels* kernels : kernel_sets()) {
    const auto outputs = [&](const auto& keys, const auto& values, const auto& rows, KvFormat format, size_t dim,
                             size_t stride) {
      const auto key_pages = pages_of(keys, kPages), value_pages = pages_of(values, kPages),
                 row_pages = pages_of(rows, kPages);
      std::vector<float> out = q, latent_out(kRows * stride), scratch(kRows * kPages * 16);
      AttentionTask task{out.data(), dim,  kRows,   dim,        kPadded, key_pages.data(), value_pages.data(), kKeys,
                         1,          0.3f, nullptr, out.data(), dim,     scratch.data(),   kPages * 16};
      task.window = 20;
      task.format = format;
      kernels->attention(task);
      kernels->latent_attention({latent_q.data(), kRows, 32, stride, row_pages.data(), kKeys, 1, 0.3f,
                                 latent_out.data(), scratch.data(), kPages * 16, format});
      return std::pair{out, latent_out};
    };
    CHECK_MESSAGE((outputs(k.bits, v.bits, latent.bits, KvFormat::kBf16, kDim, kStride) ==
                   outputs(k.floats, v.floats, latent.floats, KvFormat::kF32, kDim, kStride)),
                  kernels->isa);
    CHECK_MESSAGE((outputs(k8.codes, v8.codes, latent8.codes, KvFormat::kQ8_0, kPadded, 64) ==
                   outputs(k8.floats, v8.floats, latent8.floats, KvFormat::kF32, kPadded, 64)),
                  kernels->isa);
  }
}

TEST_CASE("kernels: attention has the same bits in all sets and for each row alone, causal or not, with bias or not") {
  constexpr size_t kDim = 24, kPadded = 32;
  for (const auto& [keys, rows, causal, with_bias] :
       grid(Sizes{1, 5, 16, 17, 50, 150}, Sizes{1, 3, 4, 6, 21}, kBoth, kBoth)) {
    CASE(keys, rows, causal, with_bias);
    const size_t most = keys + (causal ? rows - 1 : 0), pages = (most + 15) / 16;
    const auto q = random_floats(rows * kDim, 8), k = random_floats(pages * kDim * 16, 9);
    const auto v = random_floats(pages * 16 * kPadded, 10), bias = random_floats(rows + pages * 16 + 32, 11);
    const auto k_pages = pages_of(k, pages), v_pages = pages_of(v, pages);
    of_all_sets([&](const CpuKernels& kernels) {
      std::vector<float> scratch(kScoreRows * pages * 16);
      const auto attend = [&](size_t row, size_t count) {
        std::vector<float> out = part_of(q, row * kDim, count * kDim);
        kernels.attention({out.data(), kDim, count, kDim, kPadded, k_pages.data(), v_pages.data(),
                           keys + (causal ? row : 0), causal ? size_t{1} : 0, 0.3f,
                           with_bias ? bias.data() + rows - row : nullptr, out.data(), kDim, scratch.data(),
                           pages * 16});
        return out;
      };
      const std::vector<float> out = attend(0, rows);
      for (size_t row = 0; row < rows; ++row) REQUIRE(attend(row, 1) == part_of(out, row * kDim, kDim));
      return out;
    });
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
