// The device's products against the CPU's scalar kernel.
#ifdef SIDA_WITH_CUDA
#include "ops/cuda/gemm.h"

#include <deque>

#include "support/device_copy.h"
#include "support/kernel_sets.h"
#include "support/weight_formats.h"
#include "weights/panels.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

/// Of Σ |x · w|. f32: both sum in f32, in other orders. The others: x is cut after 17 bits.
double tolerance(WeightFormat format) { return format == kF32Format ? 1e-6 : 1e-5; }

/// A packed (n, k) matrix, in host and device memory, and its weights.
struct Matrix {
  std::vector<std::byte> panels;
  DeviceCopy<std::byte> copy;
  PanelMatrix host, device;
  std::vector<float> weights;

  Matrix(WeightFormat format, size_t n, size_t k, unsigned seed)
      : panels(random_panels(format, n, k, seed)),
        copy(panels),
        host{panels.data(), format, k, n},
        device{copy.data(), format, k, n},
        weights(n * k) {
    for (size_t j = 0; j < n; ++j) read_panel_row(host, j, &weights[j * k]);
  }
};

/// y (rows, n) of one product on the device; `before` is what y holds at first.
std::vector<float> on_device(const PanelMatrix& w, const std::vector<float>& x, size_t rows, Epilogue epilogue,
                             const std::vector<float>& before) {
  const DeviceCopy<float> inputs(x), y(before);
  const cuda::Product product{inputs.data(), nullptr, 1, static_cast<uint32_t>(rows), w, y.data()};
  cuda::gemm({&product, 1}, {w.k, w.n, epilogue}, nullptr);
  return y.read();
}

std::vector<float> on_cpu(const PanelMatrix& w, const std::vector<float>& x, size_t rows, Epilogue epilogue,
                          std::vector<float> y) {
  cpu_kernels_named("scalar")->gemm(
      {x.data(), w.k, rows, w.data, w.format, w.k, w.n, 0, w.panels(), y.data(), w.n, epilogue});
  return y;
}

void check_products(const Matrix& w, const std::vector<float>& x, const std::vector<float>& found,
                    const std::vector<float>& expected) {
  const size_t n = w.host.n, k = w.host.k;
  double worst = 0;
  for (size_t at = 0; at < expected.size(); ++at) {
    const float *row = &x[at / n * k], *weights = &w.weights[at % n * k];
    double size = std::fabs(expected[at]);
    for (size_t l = 0; l < k; ++l) size += std::fabs(static_cast<double>(row[l]) * weights[l]);
    const double error = std::fabs(static_cast<double>(found[at]) - expected[at]) / (size + 1e-30);
    worst = error <= worst ? worst : error;
    if (std::isnan(error)) break;
  }
  CHECK(worst <= tolerance(w.host.format));
}

TEST_CASE(
    "cuda gemm: every format agrees with the CPU's scalar kernel on all tail sizes, and where slices take turns") {
  using Shape = std::pair<size_t, size_t>;
  for (const auto& [format, shape, rows] :
       grid(all_formats(), std::vector<Shape>{{1, 1}, {31, 7}, {32, 64}, {33, 129}, {72, 100}, {40, 300}, {32, 4500}},
            Sizes{1, 2, 7, 16, 17, 40})) {
    if (shape.second == 4500 && rows != 1 && rows != 7) continue;
    const size_t n = shape.first, k = inputs_for(format, shape.second);
    const auto epilogue = static_cast<Epilogue>((n + k + rows) % 3);
    CASE(format, n, k, rows, epilogue);
    const Matrix w(format, n, k, 2);
    const auto x = random_floats(rows * k, 1), before = random_floats(rows * n, 3);
    check_products(w, x, on_device(w.device, x, rows, epilogue, before), on_cpu(w.host, x, rows, epilogue, before));
  }
}

/// Several products of one launch, whose rows are scattered in a common x and y.
struct Launch {
  static constexpr float kUntouched = 77.0f;
  size_t n, k, x_stride, y_stride;
  std::deque<Matrix> matrices;
  std::vector<float> x;
  std::vector<uint32_t> gather, rows;

  /// Product i has rows[i] rows; all rows are drawn from `tokens` rows of x.
  Launch(WeightFormat format, size_t n_, size_t k_, size_t tokens, std::vector<uint32_t> rows_)
      : n(n_), k(k_), x_stride(k + 3), y_stride(n + 5), x(random_floats(tokens * x_stride, 8)), rows(std::move(rows_)) {
    std::mt19937 random(9);
    for (size_t i = 0; i < rows.size(); ++i) {
      matrices.emplace_back(format, n, k, static_cast<unsigned>(100 + i));
      for (uint32_t row = 0; row < rows[i]; ++row) gather.push_back(random() % (2 * static_cast<unsigned>(tokens)));
    }
  }

  /// (all rows, y_stride). A choice reads the row of half its number.
  std::vector<float> all() const {
    const DeviceCopy<float> inputs(x), y(std::vector<float>(gather.size() * y_stride, kUntouched));
    const DeviceCopy<uint32_t> choices(gather);
    std::vector<cuda::Product> products;
    size_t first = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      products.push_back(
          {inputs.data(), choices.data() + first, 2, rows[i], matrices[i].device, y.data() + first * y_stride});
      first += rows[i];
    }
    cuda::gemm(products, {x_stride, y_stride, Epilogue::kStore}, nullptr);
    return y.read();
  }
};

/// All rows against the CPU, every `step`th also against the same row alone.
void check_rows(const Launch& launch, size_t step) {
  const auto y = launch.all();
  const std::vector<float> nothing(launch.n);
  for (size_t i = 0, choice = 0; i < launch.rows.size(); ++i) {
    for (uint32_t row = 0; row < launch.rows[i]; ++row, ++choice) {
      CASE(i, row);
      const auto x = part_of(launch.x, launch.gather[choice] / 2 * launch.x_stride, launch.k);
      const auto found = part_of(y, choice * launch.y_stride, launch.n);
      const PanelMatrix &host = launch.matrices[i].host, &device = launch.matrices[i].device;
      check_products(launch.matrices[i], x, found, on_cpu(host, x, 1, Epilogue::kStore, nothing));
      if (choice % step == 0) CHECK(same_bits(on_device(device, x, 1, Epilogue::kStore, nothing), found));
      const float* output = &y[choice * launch.y_stride];
      CHECK(std::all_of(output + launch.n, output + launch.y_stride,
                        [](float value) { return value == Launch::kUntouched; }));
    }
  }
}

TEST_CASE("cuda gemm: a row alone has the bits it has among others, in other products and in many blocks") {
  for (const WeightFormat format : all_formats()) {
    CASE(format);
    for (const size_t k : {260, 96}) check_rows({format, 50, inputs_for(format, k), 11, {3, 0, 1, 16, 70, 8}}, 3);
    // As many products as a launch takes.
    if (!in_super_blocks(format.type)) {
      check_rows({format, 229, inputs_for(format, 40), 5, std::vector<uint32_t>(cuda::kMaxProducts, 1)}, 5);
    }
    // Enough blocks for many rows at a time. Vectors of x and y, but for the tails; then none.
    check_rows({format, 1031, inputs_for(format, 161), 20, {17, 70, 5, 33}}, 23);
    if (in_planes(format.type)) continue;
    check_rows({format, 1028, inputs_for(format, 34), 20, {17, 70, 33}}, 47);
    check_rows({format, 1027, inputs_for(format, 33), 40, {150, 17, 449}}, 97);
  }
}

TEST_CASE("cuda gemm: a NaN stays NaN, in its own row only") {
  constexpr size_t n = 40, rows = 3;
  for (const auto& [format, bad] : grid(all_formats(), std::vector{NAN, kInfinity, -kInfinity})) {
    CASE(format, bad);
    const size_t k = inputs_for(format, 70);
    const Matrix w(format, n, k, 2);
    auto x = random_floats(rows * k, 1);
    const std::vector<float> nothing(rows * n);
    auto expected = on_device(w.device, x, rows, Epilogue::kRelu, nothing);
    x[k + 5] = bad;
    std::ranges::copy(part_of(on_cpu(w.host, x, rows, Epilogue::kRelu, nothing), n, n), &expected[n]);
    const auto found = on_device(w.device, x, rows, Epilogue::kRelu, nothing);
    for (size_t i = 0; i < rows * n; ++i) {
      REQUIRE((std::isnan(expected[i]) ? std::isnan(found[i]) : found[i] == expected[i]));
    }
  }
}

TEST_CASE("cuda gemm: swiglu scales the product by silu of what y holds, and a gate that is not finite fails") {
  constexpr size_t n = 40, k = 70;
  for (const auto& [format, rows] : grid(kFormats, Sizes{1, 20})) {
    CASE(format, rows);
    const Matrix w(format, n, k, 2);
    const auto x = random_floats(rows * k, 1);
    auto gate = random_floats(rows * n, 3);
    gate[0] = -200, gate[1] = 200, gate[2] = kInfinity, gate[3] = -kInfinity, gate[4] = NAN, gate[5] = 0;
    const auto up = on_device(w.device, x, rows, Epilogue::kStore, gate);
    const auto found = on_device(w.device, x, rows, Epilogue::kSwiglu, gate);
    for (size_t i = 0; i < rows * n; ++i) {
      CASE(i);
      if (!std::isfinite(gate[i])) {
        REQUIRE(std::isnan(found[i]));
        continue;
      }
      const double expected = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
      REQUIRE(std::fabs(found[i] - expected) <= 1e-6 * std::fabs(expected) + 1e-37);
    }
  }
}

TEST_CASE("cuda gemm: products with bf16c weights have the bits of those with bf16, and any bytes are read safely") {
  for (const auto& [shape, rows] :
       grid(std::vector<std::pair<size_t, size_t>>{{1, 1}, {33, 129}, {72, 100}, {300, 259}}, Sizes{1, 9, 17, 70})) {
    const auto [n, k] = shape;
    CASE(n, k, rows);
    const auto x = random_floats(rows * k, 1), before = random_floats(rows * n, 3);
    const Matrix coded(kBf16cFormat, n, k, 2);
    std::vector<std::byte> panels(panel_matrix_bytes(n, k, kBf16Format));
    pack_panels(coded.weights.data(), n, k, kBf16Format, panels.data());
    const DeviceCopy<std::byte> copy(panels);
    const auto plain = on_device({copy.data(), kBf16Format, k, n}, x, rows, Epilogue::kAdd, before);
    REQUIRE(same_bits(on_device(coded.device, x, rows, Epilogue::kAdd, before), plain));
    std::mt19937 random(4);
    std::vector<std::byte> any(coded.panels.size());
    for (std::byte& byte : any) byte = static_cast<std::byte>(random());
    const DeviceCopy<std::byte> damaged(any);
    on_device({damaged.data(), kBf16cFormat, k, n}, x, rows, Epilogue::kStore, before);
  }
}

TEST_CASE("cuda gemm: a NaN weight makes its column NaN") {
  constexpr size_t n = 40, k = 70, column = 33;
  for (const WeightFormat format : kFormats) {
    CASE(format);
    auto weights = random_floats(n * k, 2);
    weights[column * k + 64] = NAN;
    std::vector<std::byte> panels(panel_matrix_bytes(n, k, format));
    pack_panels(weights.data(), n, k, format, panels.data());
    const DeviceCopy<std::byte> copy(panels);
    const auto y =
        on_device({copy.data(), format, k, n}, random_floats(k, 1), 1, Epilogue::kRelu, std::vector<float>(n));
    for (size_t j = 0; j < n; ++j) CHECK(std::isnan(y[j]) == (j == column));
  }
}

TEST_CASE("cuda gemm: products of one x with different widths have the bits they have alone") {
  const Sizes widths{229, 33, 1, 72};
  for (const auto& [format, rows] : grid(kFormats, Sizes{1, 9, 17, 70})) {
    CASE(format, rows);
    const size_t k = inputs_for(format, 161);
    const auto x = random_floats(rows * k, 1);
    const DeviceCopy<float> inputs(x);
    std::deque<Matrix> matrices;
    std::deque<DeviceCopy<float>> y;
    std::vector<cuda::Product> products;
    for (const size_t n : widths) {
      const Matrix& w = matrices.emplace_back(format, n, k, static_cast<unsigned>(n));
      y.emplace_back(std::vector<float>(rows * n));
      products.push_back({inputs.data(), nullptr, 1, static_cast<uint32_t>(rows), w.device, y.back().data()});
    }
    cuda::gemm(products, {k, 0, Epilogue::kRelu}, nullptr);
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::vector<float> nothing(rows * widths[i]);
      CHECK(same_bits(y[i].read(), on_device(matrices[i].device, x, rows, Epilogue::kRelu, nothing)));
    }
  }
}

TEST_CASE("cuda gemm: gates in the same launch give the bits of a launch of their own") {
  for (const auto& [format, inputs, rows] : grid(all_formats(), Sizes{100, 300, 4500}, Sizes{1, 7, 16, 40})) {
    if (inputs == 4500 && rows != 7) continue;
    const size_t n = 72, k = inputs_for(format, inputs);
    CASE(format, k, rows);
    // Both lie in one block, as those of an expert; and the gate alone.
    const Matrix up(format, n, k, 2), gate(format, n, k, 3);
    std::vector<std::byte> both = gate.panels;
    both.resize((both.size() + 63) / 64 * 64);
    const size_t offset = both.size();
    both.insert(both.end(), up.panels.begin(), up.panels.end());
    const DeviceCopy<std::byte> block(both), other(both);
    const auto x = random_floats(rows * k, 1), biases = random_floats(2 * n, 4);
    const DeviceCopy<float> from(x), bias(biases);
    for (const Epilogue epilogue : {Epilogue::kSwiglu, Epilogue::kClampedSwiglu, Epilogue::kGeglu}) {
      for (const bool biased : kBoth) {
        const auto in = [&](const DeviceCopy<std::byte>& memory, size_t at, size_t column) {
          return PanelMatrix{memory.data() + at, format, k, n, biased ? bias.data() + column : nullptr};
        };
        const std::vector<float> nothing(rows * n);
        const auto gates = on_device(in(block, 0, 0), x, rows, Epilogue::kStore, nothing);
        const auto expected = on_device(in(block, offset, n), x, rows, epilogue, gates);
        // The third product's gate has another distance from its weights in the second launch.
        for (const DeviceCopy<std::byte>* last : {&block, &other}) {
          std::deque<DeviceCopy<float>> y;
          std::vector<cuda::Product> products;
          for (int i = 0; i < 3; ++i) {
            y.emplace_back(nothing);
            products.push_back({from.data(), nullptr, 1, static_cast<uint32_t>(rows), in(block, offset, n),
                                y.back().data(), in(i == 2 ? *last : block, 0, 0)});
          }
          cuda::gemm(products, {k, 0, epilogue}, nullptr);
          for (const auto& found : y) REQUIRE(same_bits(found.read(), expected));
        }
      }
    }
  }
}

TEST_CASE("cuda gemm: what is done to a product's rows has the bits of a launch of its own, again and again") {
  const DeviceCopy<unsigned> arrived(std::vector<unsigned>(1));
  const auto weight = random_floats(300, 5), shift = random_floats(300, 6);
  const DeviceCopy<float> weights(weight), shifts(shift);
  for (const auto& [format, n, rows] : grid(kFormats, Sizes{5, 72, 300}, Sizes{1, 3, 9, 16, 17, 70})) {
    CASE(format, n, rows);
    const size_t k = inputs_for(format, 300);
    const Matrix w(format, n, k, 2);
    const auto x = random_floats(rows * k, 1), before = random_floats(rows * n, 3);
    const DeviceCopy<float> inputs(x), sums(on_device(w.device, x, rows, Epilogue::kAdd, before));
    const std::vector<float> nothing(rows * n);
    for (const bool biased : kBoth) {
      const cuda::RowNorm norm{weights.data(), biased ? shifts.data() : nullptr, 1e-5f};
      const DeviceCopy<float> y(before), normed(nothing), expected(nothing);
      cuda::gemm({inputs.data(), nullptr, 1, static_cast<uint32_t>(rows), w.device, y.data()}, Epilogue::kAdd,
                 {arrived.data(), normed.data(), norm}, nullptr);
      cuda::norm(sums.data(), norm, rows, n, expected.data(), nullptr);
      CHECK(same_bits(y.read(), sums.read()));
      CHECK(same_bits(normed.read(), expected.read()));
    }
    cuda::Router router{{.top_k = std::min<size_t>(n, 8), .normalized = true, .scale = 0.5}, shifts.data()};
    if (n % 4 == 0) router.spec.groups = {4, 2, 1};
    const std::vector<float> no_alphas(rows * router.spec.top_k);
    const std::vector<uint16_t> no_experts(rows * router.spec.top_k);
    const DeviceCopy<float> logits(before), alpha(no_alphas), expected_alpha(no_alphas);
    const DeviceCopy<uint16_t> expert(no_experts), expected_expert(no_experts);
    cuda::gemm({inputs.data(), nullptr, 1, static_cast<uint32_t>(rows), w.device, logits.data()}, Epilogue::kAdd,
               {arrived.data(), nullptr, {}, router, expert.data(), alpha.data()}, nullptr);
    cuda::choose(sums.data(), rows, n, router, expected_expert.data(), expected_alpha.data(), nullptr);
    CHECK(expert.read() == expected_expert.read());
    CHECK(same_bits(alpha.read(), expected_alpha.read()));
  }
  CHECK(arrived.read()[0] == 0);
}

TEST_SUITE_END();

}  // namespace
#endif
