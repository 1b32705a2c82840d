// bf16c against bf16: the same numbers, and products with the same bits.
#include "weights/coded_panels.h"

#include "core/dtype.h"
#include "ops/cpu/linear.h"
#include "support/kernel_sets.h"
#include "support/weight_formats.h"

namespace {

float number_of(unsigned sign, unsigned exponent, unsigned mantissa) {
  return bf16_to_f32(static_cast<uint16_t>(sign << 15 | exponent << 7 | mantissa));
}

/// Rows (n, k) of numbers with 15 exponents a row, zeros of both signs, denormals, and as many others as have room,
/// infinities among them.
std::vector<float> coded_rows(size_t n, size_t k, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> rows(n * k);
  for (size_t row = 0; row < n; ++row) {
    const auto base = static_cast<unsigned>(row * 17 % (kMostBase + 1));
    for (size_t i = 0; i < k; ++i) {
      const unsigned code = random() % 16, exponent = code == 0 ? 0 : base + code;
      rows[row * k + i] = number_of(random() % 2, exponent, random() % 3 == 0 ? 0 : random() % 128);
    }
    // The window of the codes holds more numbers than any other.
    rows[row * k] = number_of(0, base + 1, 1);
    rows[row * k + k - 1] = number_of(1, base + 15, 1);
    if (row % 8 != 0 || k < 40) continue;
    for (size_t i = 0; i < most_escapes(k) / 4; ++i) {
      const unsigned any = (base + 100 + 35 * static_cast<unsigned>(i)) % 255 + 1,
                     outside = base < 16 ? base + 16 : base;
      const unsigned exponent = any > base && any <= base + 15 ? outside : any;
      rows[row * k + 1 + i * 7] = number_of(random() % 2, exponent, 0);
    }
  }
  return rows;
}

std::vector<std::byte> packed(const std::vector<float>& rows, size_t n, size_t k, WeightFormat format) {
  std::vector<std::byte> panels(panel_matrix_bytes(n, k, format));
  pack_panels(rows.data(), n, k, format, panels.data());
  return panels;
}

size_t escapes_of(const std::vector<std::byte>& panels, size_t k) {
  const auto* starts = reinterpret_cast<const uint16_t*>(panels.data() + starts_offset(k));
  return starts[escape_starts(k)];
}

/// What the products are of, of one type.
struct Panels {
  WeightFormat format;
  size_t n, k;
  std::vector<std::byte> bytes;

  std::vector<float> times(const CpuKernels& kernels, const std::vector<float>& x, const std::vector<float>& bias,
                           ActivationFormat activations, Epilogue epilogue) const {
    const size_t rows = x.size() / k;
    std::vector<float> y(rows * n, 0.5f);
    const GemmTask task{x.data(), k, rows,     bytes.data(), format, k, n, 0, PanelMatrix{{}, format, k, n}.panels(),
                        y.data(), n, epilogue, bias.data()};
    if (activations == ActivationFormat::kF32) {
      kernels.gemm(task);
      return y;
    }
    std::vector<std::byte> memory(rounded_bytes(rows, k, format));
    const RoundedRows rounded = rounded_rows(memory, rows, k, format);
    kernels.round_rows({x.data(), k, rows, k, format}, rounded);
    kernels.gemm_rounded(task, rounded);
    return y;
  }
};

TEST_CASE("bf16c: panels hold the numbers of bf16, in three quarters of the bytes") {
  for (const auto& [n, k] : grid(Sizes{1, 31, 32, 33, 70}, Sizes{1, 7, 8, 40, 64, 100, 515})) {
    CASE(n, k);
    const std::vector<float> rows = coded_rows(n, k, 3);
    const std::vector<std::byte> plain = packed(rows, n, k, kBf16Format), coded = packed(rows, n, k, kBf16cFormat);
    if (k >= 40) CHECK(escapes_of(coded, k) == std::min<size_t>((n + 7) / 8, 4) * (most_escapes(k) / 4));
    std::vector<float> expected(k), found(k);
    for (size_t row = 0; row < n; ++row) {
      read_panel_row({plain.data(), kBf16Format, k, n}, row, expected.data());
      read_panel_row({coded.data(), kBf16cFormat, k, n}, row, found.data());
      REQUIRE(same_bits(found, expected));
    }
    for (size_t at = 0; at < coded.size(); at += panel_bytes(k, kBf16cFormat)) CHECK(codes_hold(&coded[at], k));
  }
  const auto bytes = [](size_t k, WeightFormat format) { return static_cast<double>(panel_bytes(k, format)); };
  for (const size_t k : {1024, 2048, 8192}) CHECK(bytes(k, kBf16cFormat) < 0.766 * bytes(k, kBf16Format));
}

TEST_CASE("bf16c: products have the bits of those with bf16, in every set, for any rows and activations") {
  for (const auto& [n, k, rows, activations] : grid(Sizes{1, 33, 64}, Sizes{1, 7, 64, 99, 515}, Sizes{1, 4, 9, 33, 70},
                                                    std::vector{ActivationFormat::kF32, ActivationFormat::kBf16})) {
    CASE(n, k, rows, activation_format_name(activations));
    // Products with the largest and the smallest numbers overflow and vanish.
    const std::vector<float> weights = coded_rows(n, k, 5), x = random_floats(rows * k, 1), bias = random_floats(n, 2);
    const Panels plain{kBf16Format, n, k, packed(weights, n, k, kBf16Format)};
    const Panels coded{kBf16cFormat, n, k, packed(weights, n, k, kBf16cFormat)};
    for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kSwiglu}) {
      const auto of = [&](const Panels& panels) {
        return of_all_sets(
            [&](const CpuKernels& kernels) { return panels.times(kernels, x, bias, activations, epilogue); });
      };
      REQUIRE(same_bits(of(coded), of(plain)));
    }
  }
}

TEST_CASE("bf16c: as many escapes as have room are kept, and one more is refused with the numbers") {
  constexpr size_t n = 40, k = 64;
  std::vector<float> rows(n * k, 1.0f);
  for (size_t i = 0; i < most_escapes(k); ++i) rows[(33 + i % 4) * k + 5 + i] = 0x1p-30f;
  CHECK(escapes_of(packed(rows, n, k, kBf16cFormat), k) == 0);
  rows[39 * k + 63] = 0x1p60f;
  check_error([&] { packed(rows, n, k, kBf16cFormat); },
              {"bf16c codes 15 exponents a row", "rows 32 to 63", "9 of 2048 weights have others, and 8 have room"},
              "invalid_request");
}

TEST_CASE("bf16c: a panel with wrong bases, starts or escapes is refused") {
  constexpr size_t n = 32, k = 100;
  const std::vector<std::byte> sound = packed(coded_rows(n, k, 3), n, k, kBf16cFormat);
  REQUIRE(escapes_of(sound, k) == most_escapes(k));
  const auto holds = [&](const std::function<void(std::byte*, uint16_t*, uint32_t*)>& damage) {
    std::vector<std::byte> panel = sound;
    damage(panel.data(), reinterpret_cast<uint16_t*>(panel.data() + starts_offset(k)),
           reinterpret_cast<uint32_t*>(panel.data() + escapes_offset(k)));
    return codes_hold(panel.data(), k);
  };
  CHECK(holds([](auto*, auto*, auto*) {}));
  CHECK(!holds([](auto* panel, auto*, auto*) { panel[coded_byte(0, 5)] = std::byte{kMostBase + 1}; }));
  CHECK(!holds([](auto* panel, auto*, auto*) { panel[coded_byte(2, 5)] ^= std::byte{1}; }));
  CHECK(!holds([](auto*, auto* starts, auto*) { starts[0] = 1; }));
  CHECK(!holds([](auto*, auto* starts, auto*) { starts[1] = starts[2] + 1; }));
  CHECK(!holds([](auto*, auto* starts, auto*) { starts[1] = 0; }));
  CHECK(!holds([](auto*, auto* starts, auto*) { starts[escape_starts(k)] = most_escapes(k) + 1; }));
  CHECK(!holds([](auto*, auto* starts, auto*) { starts[escape_starts(k)] = 65535; }));
  CHECK(!holds([](auto*, auto*, auto* escapes) { std::swap(escapes[0], escapes[1]); }));
  CHECK(!holds([](auto*, auto*, auto* escapes) { escapes[1] = escapes[0]; }));
  CHECK(!holds([](auto*, auto*, auto* escapes) { escapes[most_escapes(k) - 1] = k * kPanelColumns << 8; }));
  CHECK(!holds([](auto*, auto*, auto* escapes) { escapes[most_escapes(k) - 1] = UINT32_MAX; }));
}

TEST_CASE("bf16c: any bytes are read within their panel, as the same numbers in every set") {
  std::mt19937 random(1);
  for (const auto& [seed, k] : grid(Sizes{1, 2, 3, 4, 5, 6, 7, 8}, Sizes{1, 33, 100})) {
    CASE(seed, k);
    constexpr size_t n = 33;
    Panels panels{kBf16cFormat, n, k, std::vector<std::byte>(panel_matrix_bytes(n, k, kBf16cFormat))};
    for (std::byte& byte : panels.bytes) byte = static_cast<std::byte>(random());
    std::vector<float> row(k);
    for (size_t i = 0; i < n; ++i) read_panel_row({panels.bytes.data(), kBf16cFormat, k, n}, i, row.data());
    const std::vector<float> x = random_floats(k, 1), bias(n);
    for (const ActivationFormat activations : {ActivationFormat::kF32, ActivationFormat::kBf16}) {
      of_all_sets(
          [&](const CpuKernels& kernels) { return panels.times(kernels, x, bias, activations, Epilogue::kStore); });
    }
  }
}

}  // namespace
