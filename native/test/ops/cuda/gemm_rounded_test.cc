// The device's products of activations in 8 bits against the CPU's scalar kernels, bit for bit.
#ifdef SIDA_WITH_CUDA
#include "ops/cpu/rounded_rows.h"
#include "ops/cuda/rounded.h"
#include "support/device_copy.h"
#include "support/kernel_sets.h"
#include "support/weight_formats.h"
#include "weights/panels.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

std::vector<WeightFormat> rounded_formats() {
  std::vector<WeightFormat> all = all_formats();
  std::erase_if(all, [](WeightFormat format) { return !quantized(format); });
  return all;
}

/// One product of all rows of x (rows, k), with what y holds before it.
struct RoundedCase {
  WeightFormat format;
  size_t rows, n, k;
  std::vector<float> x, before, bias;
  std::vector<std::byte> panels;

  RoundedCase(WeightFormat format_, size_t rows_, size_t n_, size_t k_)
      : format(format_),
        rows(rows_),
        n(n_),
        k(inputs_for(format_, k_)),
        x(random_floats(rows * k, 1)),
        before(random_floats(rows * n, 3)),
        panels(random_panels(format, n, k, 2)) {}

  std::vector<float> on_cpu(Epilogue epilogue) const {
    const CpuKernels& kernels = *cpu_kernels_named("scalar");
    std::vector<std::byte> memory(rounded_bytes(rows, k, format));
    const RoundedRows codes = rounded_rows(memory, rows, k, format);
    kernels.round_rows({x.data(), k, rows, k, format}, codes);
    std::vector<float> y = before;
    const PanelMatrix w{panels.data(), format, k, n};
    kernels.gemm_rounded({x.data(), k, rows, w.data, format, k, n, 0, w.panels(), y.data(), n, epilogue,
                          bias.empty() ? nullptr : bias.data()},
                         codes);
    return y;
  }

  std::vector<float> on_device(Epilogue epilogue) const {
    const DeviceCopy<float> inputs(x), y(before), biases(bias);
    const DeviceCopy<std::byte> weights(panels);
    const DeviceCopy<std::byte> memory(std::vector<std::byte>(cuda::rounded_bytes(rows, k)));
    const cuda::RoundedRows codes = cuda::lay_out_rounded(memory.data(), rows, k);
    const cuda::RowRange all{0, static_cast<uint32_t>(rows)};
    cuda::round_rows(inputs.data(), k, k, {&all, 1}, codes, nullptr);
    const PanelMatrix w{weights.data(), format, k, n, bias.empty() ? nullptr : biases.data()};
    const cuda::RoundedProduct product{0, nullptr, 1, static_cast<uint32_t>(rows), w, y.data()};
    cuda::gemm_rounded(codes, {&product, 1}, n, epilogue, nullptr);
    return y.read();
  }
};

/// The bits of a NaN may differ.
void check_equal(std::vector<float> found, std::vector<float> expected) {
  for (auto* values : {&found, &expected}) {
    for (float& value : *values) value = std::isnan(value) ? NAN : value;
  }
  CHECK(same_bits(found, expected));
}

constexpr Epilogue kAllEpilogues[] = {Epilogue::kStore,  Epilogue::kRelu,          Epilogue::kGelu, Epilogue::kAdd,
                                      Epilogue::kSwiglu, Epilogue::kClampedSwiglu, Epilogue::kGeglu};

TEST_CASE("cuda gemm rounded: every quantized type has the CPU's bits on all tail sizes") {
  size_t turn = 0;
  for (const auto& [format, rows, n] : grid(rounded_formats(), Sizes{1, 2, 3, 8, 9, 16, 17, 40}, Sizes{1, 31, 65})) {
    Sizes inputs{1, 7, 33, 64, 100, 129, 172, 256, 300, 768, 1056};
    std::erase_if(inputs, [wanted = format](size_t k) {
      return inputs_for(wanted, k) != k || in_super_blocks(wanted.type) != (k % 256 == 0);
    });
    for (const size_t k : inputs) {
      // All rows but the smallest and the largest numbers with some of the shapes.
      if (rows != 1 && rows != 40 && (k + n + rows) % 3 != 0) continue;
      RoundedCase c(format, rows, n, k);
      if (turn % 2 == 1) c.bias = random_floats(n, 4);
      const Epilogue epilogue = kAllEpilogues[turn++ % std::size(kAllEpilogues)];
      CASE(format, rows, n, k, epilogue);
      check_equal(c.on_device(epilogue), c.on_cpu(epilogue));
    }
  }
}

TEST_CASE("cuda gemm rounded: any number of rows and of slices has the CPU's bits") {
  for (const WeightFormat format : {kInt8Format, WeightFormat{WeightType::kInt4, 64}, kQ6_KFormat, kQ4_KFormat}) {
    for (size_t rows = 1; rows <= 40; ++rows) {
      CASE(format, rows);
      const RoundedCase c(format, rows, 40, 300);
      check_equal(c.on_device(Epilogue::kStore), c.on_cpu(Epilogue::kStore));
    }
    CASE(format);
    const RoundedCase c(format, 5, 33, 4500);
    check_equal(c.on_device(Epilogue::kSwiglu), c.on_cpu(Epilogue::kSwiglu));
  }
}

TEST_CASE("cuda gemm rounded: activations are the CPU's where gates and products are large, tiny or not finite") {
  constexpr size_t kRows = 3, kColumns = 48;
  for (const auto& [epilogue, size] : grid(std::vector<Epilogue>(std::begin(kAllEpilogues), std::end(kAllEpilogues)),
                                           std::vector{1e-39f, 1e-3f, 1.0f, 30.0f, 1e4f, 1e30f})) {
    CASE(epilogue, size);
    RoundedCase c(kInt8Format, kRows, kColumns, 70);
    c.bias = random_floats(kColumns, 4);
    for (float& value : c.x) value *= size;
    for (float& value : c.before) value *= size;
    const float odd[] = {-200, 200, INFINITY, -INFINITY, NAN, 0, -0.0f, -87, -88.5f, 88, 7, -7, 1e-45f};
    std::ranges::copy(odd, c.before.begin());
    check_equal(c.on_device(epilogue), c.on_cpu(epilogue));
  }
}

TEST_CASE("cuda gemm rounded: rows are rounded as the CPU rounds them, also those that hold no numbers or zeros") {
  constexpr size_t kRows = 8;
  for (const size_t k : {1, 5, 128, 700}) {
    CASE(k);
    RoundedCase c(kInt8Format, kRows, 3, k);
    c.x[0] = NAN;
    c.x[k] = INFINITY;
    c.x[2 * k] = -INFINITY;
    for (size_t i = 0; i < k; ++i) c.x[3 * k + i] = 0, c.x[4 * k + i] *= 1e-37f, c.x[5 * k + i] *= 1e-34f;
    // Halves are rounded to even.
    for (size_t i = 0; i < k; ++i) c.x[6 * k + i] = static_cast<float>(i % 254) / 2 - 63.5f;
    std::vector<std::byte> memory(rounded_bytes(kRows, k, kInt8Format));
    const RoundedRows expected = rounded_rows(memory, kRows, k, kInt8Format);
    cpu_kernels_named("scalar")->round_rows({c.x.data(), k, kRows, k, kInt8Format}, expected);
    const DeviceCopy<float> x(c.x);
    const DeviceCopy<std::byte> device(std::vector<std::byte>(cuda::rounded_bytes(kRows, k)));
    const cuda::RoundedRows found = cuda::lay_out_rounded(device.data(), kRows, k);
    const cuda::RowRange ranges[] = {{0, 3}, {3, 0}, {3, 5}};
    cuda::round_rows(x.data(), k, k, ranges, found, nullptr);
    const std::vector<std::byte> read = device.read();
    const auto* codes = reinterpret_cast<const int8_t*>(read.data());
    const auto* scales = reinterpret_cast<const float*>(
        read.data() + (reinterpret_cast<const std::byte*>(found.scales) - device.data()));
    check_equal({scales, scales + kRows}, {expected.scales, expected.scales + kRows});
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t i = 0; i < found.stride; ++i) {
        // Codes for int8 weights are 128 larger in the scalar set.
        const int code = i < k ? expected.codes[row * expected.stride + i] - 128 : 0;
        REQUIRE(codes[row * found.stride + i] == code);
      }
    }
    check_equal(c.on_device(Epilogue::kStore), c.on_cpu(Epilogue::kStore));
  }
}

TEST_CASE("cuda gemm rounded: products of one launch read the rows that they gather, and a row alone has its bits") {
  constexpr size_t kTokens = 11, kDivisor = 2, n = 50;
  for (const WeightFormat format : rounded_formats()) {
    CASE(format);
    const RoundedCase tokens(format, kTokens, n, 260);
    const size_t k = tokens.k;
    const std::vector<uint32_t> counts{3, 0, 1, 16, 17, 70};
    std::vector<uint32_t> gather;
    std::mt19937 random(9);
    for (const uint32_t count : counts) {
      for (uint32_t i = 0; i < count; ++i) gather.push_back(random() % (kDivisor * kTokens));
    }
    const DeviceCopy<float> x(tokens.x), y(std::vector<float>(gather.size() * n));
    const DeviceCopy<uint32_t> choices(gather);
    const DeviceCopy<std::byte> memory(std::vector<std::byte>(cuda::rounded_bytes(kTokens, k)));
    const cuda::RoundedRows codes = cuda::lay_out_rounded(memory.data(), kTokens, k);
    const cuda::RowRange all{0, kTokens};
    cuda::round_rows(x.data(), k, k, {&all, 1}, codes, nullptr);
    std::vector<std::unique_ptr<DeviceCopy<std::byte>>> weights;
    std::vector<cuda::RoundedProduct> products;
    std::vector<RoundedCase> alone;
    size_t first = 0;
    for (const uint32_t count : counts) {
      alone.emplace_back(format, 1, n, k);
      alone.back().panels = random_panels(format, n, k, static_cast<unsigned>(100 + products.size()));
      weights.push_back(std::make_unique<DeviceCopy<std::byte>>(alone.back().panels));
      const PanelMatrix w{weights.back()->data(), format, k, n};
      products.push_back({0, choices.data() + first, kDivisor, count, w, y.data() + first * n});
      first += count;
    }
    cuda::gemm_rounded(codes, products, n, Epilogue::kStore, nullptr);
    const std::vector<float> found = y.read();
    for (size_t i = 0, choice = 0; i < counts.size(); ++i) {
      for (uint32_t row = 0; row < counts[i]; ++row, ++choice) {
        if (choice % 5 != 0) continue;
        alone[i].x = part_of(tokens.x, gather[choice] / kDivisor * k, k);
        check_equal(part_of(found, choice * n, n), alone[i].on_cpu(Epilogue::kStore));
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace
#endif
