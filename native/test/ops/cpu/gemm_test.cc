// GEMM of every type of weights with activations in f32, in 8 bits and in bf16: the sets of instructions against each
// other, bit for bit, and against float64 or the arithmetic that bf16_gemm_impl.h names.
#include <sys/mman.h>

#include "core/dtype.h"
#include "ops/cpu/linear.h"
#include "support/kernel_sets.h"
#include "support/weight_formats.h"
#include "weights/panels.h"
#include "weights/weight_blocks.h"

namespace {

constexpr ActivationFormat kF32 = ActivationFormat::kF32, kInt8 = ActivationFormat::kInt8,
                           kBf16 = ActivationFormat::kBf16;

/// The types that activations in this form meet; of `floats`, those whose panels can be packed from floats.
std::vector<WeightFormat> formats(ActivationFormat activations, bool floats = false) {
  if (activations == kBf16) return {kBf16Format, kBf16cFormat};
  std::vector<WeightFormat> all = all_formats();
  std::erase_if(all, [&](WeightFormat format) {
    return (activations == kInt8 && !quantized(format)) || (floats && only_copied(format.type));
  });
  return all;
}

/// x (rows, k) · a packed matrix (n, k).
struct Product {
  ActivationFormat activations;
  WeightFormat format;
  size_t rows, n, k;
  std::vector<float> x, w, before, bias;
  std::vector<std::byte> panels;

  Product(ActivationFormat activations_, WeightFormat format_, size_t rows_, size_t n_, size_t k_)
      : activations(activations_),
        format(format_),
        rows(rows_),
        n(n_),
        k(inputs_for(format_, k_)),
        x(random_floats(rows * k, 1)),
        w(random_floats(n * k, 2)),
        before(random_floats(rows * n, 3)),
        panels(random_panels(format, n, k, 2)) {}

  PanelMatrix matrix() const { return {panels.data(), format, k, n}; }
  /// Packs `w`.
  void pack() { pack_panels(w.data(), n, k, format, panels.data()); }
  /// Packs GGUF's blocks.
  void pack(Dtype dtype, const std::vector<std::byte>& blocks) {
    pack_blocks(dtype, blocks.data(), n, k, panels.data());
  }

  std::vector<float> run(const CpuKernels& kernels, Epilogue epilogue) const {
    std::vector<float> y = before;
    const float* const biases = bias.empty() ? nullptr : bias.data();
    const GemmTask task{x.data(),          k,        rows, panels.data(), format, k, n, 0,
                        matrix().panels(), y.data(), n,    epilogue,      biases};
    if (activations == kF32) {
      kernels.gemm(task);
      return y;
    }
    std::vector<std::byte> memory(rounded_bytes(rows, k, format));
    const RoundedRows rounded = rounded_rows(memory, rows, k, format);
    kernels.round_rows({x.data(), k, rows, k, format}, rounded);
    kernels.gemm_rounded(task, rounded);
    return y;
  }
  std::vector<float> run(Epilogue epilogue = Epilogue::kStore) const {
    return of_all_sets([&](const CpuKernels& kernels) { return run(kernels, epilogue); });
  }

  /// The weights of all rows.
  std::vector<float> weights() const {
    std::vector<float> all(n * k);
    for (size_t j = 0; j < n; ++j) read_panel_row(matrix(), j, &all[j * k]);
    return all;
  }
};

/// Compares with float64, x rounded to 8 bits where it is.
void check_float64(const Product& p, const std::vector<float>& weights, const std::vector<Epilogue>& epilogues) {
  std::vector<std::vector<float>> found;
  for (const Epilogue epilogue : epilogues) found.push_back(p.run(epilogue));
  for (size_t i = 0; i < p.rows; ++i) {
    std::vector<double> x(&p.x[i * p.k], &p.x[i * p.k] + p.k);
    float top = 0;
    for (const double value : x) top = std::max(top, std::abs(static_cast<float>(value)));
    for (double& value : x) {
      if (p.activations == kInt8) value = std::nearbyint(static_cast<float>(value) * (127.0f / top)) * top / 127;
    }
    for (size_t j = 0; j < p.n; ++j) {
      const double gate = p.before[i * p.n + j];
      double product = 0, size = 0;
      for (size_t l = 0; l < p.k; ++l) {
        product += x[l] * weights[j * p.k + l];
        size += std::abs(x[l] * weights[j * p.k + l]);
      }
      for (size_t e = 0; e < epilogues.size(); ++e) {
        const double scale = epilogues[e] == Epilogue::kSwiglu ? gate / (1 + std::exp(-gate)) : 1;
        double sum = product;
        if (epilogues[e] == Epilogue::kRelu) sum = std::max(sum, 0.0);
        if (epilogues[e] == Epilogue::kGelu) sum *= (1 + std::erf(sum * M_SQRT1_2)) / 2;
        if (epilogues[e] == Epilogue::kAdd) sum += gate;
        const double tolerance = p.activations == kInt8 ? 2e-6 : 1e-6;
        REQUIRE(std::abs(found[e][i * p.n + j] - scale * sum) <= tolerance * std::abs(scale) * (size + 1));
      }
    }
  }
}

constexpr Epilogue kChanging[] = {Epilogue::kRelu, Epilogue::kGelu, Epilogue::kAdd, Epilogue::kSwiglu};

/// All sizes with the plain product and one more epilogue in turn, which sees neither inputs nor types.
void check_sizes(ActivationFormat activations, const std::vector<WeightFormat>& formats, const Sizes& rows,
                 const Sizes& columns, const Sizes& inputs) {
  size_t turn = 0;
  for (const auto& [format, row_count, n] : grid(formats, rows, columns)) {
    Sizes own = inputs;
    // Types in blocks of 256 inputs have their sizes, the others theirs.
    std::erase_if(own, [wanted = format](size_t k) {
      return inputs_for(wanted, k) != k || in_super_blocks(wanted.type) != (k % 256 == 0);
    });
    for (const size_t k : own) {
      CASE(format, row_count, n, k);
      const Product p(activations, format, row_count, n, k);
      check_float64(p, p.weights(), {Epilogue::kStore, kChanging[turn++ % std::size(kChanging)]});
    }
  }
}

TEST_CASE("gemm: agrees with float64 and across instruction sets on all tail sizes") {
  // Rows: a part of each set's tile (2, 4 and 8 rows), a whole one, and several with a rest, which bf16c decodes first.
  // Columns: a part of a panel's first and second half, behind whole panels. Inputs: less than a step or a group, whole
  // groups, and whole ones with a rest.
  check_sizes(kF32, formats(kF32), {1, 3, 8, 17}, {31, 65}, {1, 7, 64, 129, 172, 256, 512});
}

TEST_CASE("int8 gemm: agrees with float64 on the rounded rows, and across instruction sets, on all tail sizes") {
  check_sizes(kInt8, formats(kInt8), {1, 2, 3, 5, 6, 7, 8, 12, 13, 16, 17, 32, 41}, {1, 31, 33, 64},
              {1, 3, 31, 33, 63, 65, 100, 256, 767, 768});
}

TEST_CASE("gemm: types in blocks of 32 inputs agree with float64 at any number of blocks") {
  for (const ActivationFormat activations : {kF32, kInt8}) {
    std::vector<WeightFormat> planes = formats(activations);
    std::erase_if(planes, [](WeightFormat format) { return !in_planes(format.type) || in_super_blocks(format.type); });
    check_sizes(activations, planes, {1, 3, 13, 32, 41}, {1, 33, 64}, {32, 96, 160, 288});
  }
}

TEST_CASE("bf16 gemm: every set computes what it should, bit for bit, on all tail sizes") {
  for (const auto& [rows, n, k] : grid(Sizes{1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 41}, Sizes{1, 31, 33, 64},
                                       Sizes{1, 2, 3, 31, 32, 33, 63, 64, 65, 100, 767})) {
    CASE(rows, n, k);
    Product p(kBf16, kBf16Format, rows, n, k);
    p.pack();
    std::vector<float> wanted;
    for (size_t i = 0; i < rows * n; ++i) {
      // One operation at a time; right where no number is below 2^-126.
      float sum = 0;
      for (size_t begin = 0; begin < k; begin += 32) {
        float part[2] = {0, 0};
        for (size_t l = begin; l < std::min(begin + 32, k); ++l) {
          const float a = bf16_to_f32(f32_to_bf16(p.x[i / n * k + l])),
                      b = bf16_to_f32(f32_to_bf16(p.w[i % n * k + l]));
          part[l % 2] = std::fma(a, b, part[l % 2]);
        }
        sum += part[0] + part[1];
      }
      wanted.push_back(sum);
    }
    REQUIRE(same_bits(p.run(), wanted));
    const std::vector<float> added = p.run(Epilogue::kAdd), relu = p.run(Epilogue::kRelu);
    for (size_t i = 0; i < wanted.size(); ++i) {
      REQUIRE(added[i] == p.before[i] + wanted[i]);
      REQUIRE(relu[i] == std::max(wanted[i], 0.0f));
    }
    p.run(Epilogue::kSwiglu);
  }
}

TEST_CASE("gemm: a bias is added to the product, before the activation and before what y holds") {
  for (const auto& [activations, rows, n] : grid(std::vector{kInt8, kBf16}, Sizes{1, 13, 33}, Sizes{33, 64})) {
    for (const WeightFormat format : formats(activations)) {
      CASE(format, rows, n);
      Product p(activations, format, rows, n, 256);
      const std::vector<float> product = p.run();
      p.bias = random_floats(n, 5);
      const std::vector<float> stored = p.run(), relu = p.run(Epilogue::kRelu), added = p.run(Epilogue::kAdd);
      for (size_t i = 0; i < product.size(); ++i) {
        const float sum = product[i] + p.bias[i % n];
        REQUIRE(stored[i] == sum);
        REQUIRE(relu[i] == std::max(sum, 0.0f));
        REQUIRE(added[i] == p.before[i] + sum);
      }
      // Gated products are compared among the sets alone.
      p.run(Epilogue::kSwiglu);
      p.run(Epilogue::kClampedSwiglu);
      p.run(Epilogue::kGeglu);
    }
  }
}

TEST_CASE("gemm: a row's bits do not depend on how many rows there are, nor on the threads") {
  ThreadPool one(1), three(3);
  for (const ActivationFormat activations : {kF32, kInt8, kBf16}) {
    for (const WeightFormat format : formats(activations)) {
      CASE(activation_format_name(activations), format);
      const Product p(activations, format, activations == kF32 ? 37 : 300, 200, 100);
      std::vector<std::byte> memory(rounded_bytes(kRoundedRows, p.k, format));
      const RoundedScratch scratch{activations, memory};
      std::vector<float> all(p.rows * p.n), single(p.n);
      linear(three, p.x.data(), p.k, p.rows, p.matrix(), all.data(), p.n, Epilogue::kStore, scratch);
      for (size_t i = 0; i < p.rows; ++i) {
        linear(one, &p.x[i * p.k], p.k, 1, p.matrix(), single.data(), p.n, Epilogue::kStore, scratch);
        REQUIRE(same_bits(single.data(), &all[i * p.n], p.n));
      }
    }
  }
}

TEST_CASE("gemm: a NaN or an infinity shows in its row or column and nowhere else, and zeros give zeros") {
  for (const ActivationFormat activations : {kInt8, kBf16}) {
    for (const WeightFormat format : formats(activations)) {
      CASE(activation_format_name(activations), format);
      Product p(activations, format, 35, 40, 70);
      const bool floats = !only_copied(format.type);
      if (floats) p.pack();
      const std::vector<float> sound = p.run();
      std::fill_n(p.x.begin(), 2 * p.k, 0.0f);
      p.x[p.k + 3] = activations == kInt8 ? 1e-39f : 0;
      p.x[2 * p.k + 69] = NAN;
      p.x[20 * p.k] = -kInfinity;
      p.w[7 * p.k + 68] = kInfinity;
      std::fill_n(&p.w[8 * p.k], p.k, 0.0f);
      if (floats) p.pack();
      for (const CpuKernels* kernels : kernel_sets()) {
        const std::vector<float> y = p.run(*kernels, Epilogue::kStore);
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t row = i / p.n, column = i % p.n;
          const bool broken = row == 2 || row == 20 || (floats && column == 7);
          CHECK_MESSAGE(std::isfinite(y[i]) == !broken, kernels->isa);
          if (activations == kInt8 && broken) CHECK(std::isnan(y[i]));
          const bool zero = row < 2 || (floats && column == 8);
          if (!broken) CHECK(y[i] == (zero ? 0 : sound[i]));
        }
      }
    }
  }
}

/// Rows of a constant, whatever the codes.
void check_constant(Product p, float constant) {
  CASE(p.format, p.rows, constant);
  std::ranges::fill(p.x, constant);
  const std::vector<float> y = p.run(), weights = p.weights();
  for (size_t i = 0; i < y.size(); ++i) {
    double sum = 0, size = 0;
    for (size_t l = 0; l < p.k; ++l) {
      const double term = static_cast<double>(constant) * weights[i % p.n * p.k + l];
      sum += term, size += std::abs(term);
    }
    const double tolerance = only_copied(p.format.type) ? 2e-6 * (size + 1) : 1e-6 * (std::abs(sum) + 1);
    CHECK(std::abs(y[i] - sum) <= tolerance);
  }
}

TEST_CASE("int8 gemm: the largest and the smallest codes do not saturate") {
  for (const auto& [format, sign] : grid(formats(kInt8, true), std::vector{1.0f, -1.0f})) {
    Product p(kInt8, format, 33, 33, 4096);
    // The code is the largest, and its scale has no rounding.
    const bool eight = format.type == WeightType::kInt8 || format.type == WeightType::kQ8_0;
    std::ranges::fill(p.w, sign * (format.type == WeightType::kMxfp4 ? 6.0f : eight ? 127.0f / 16 : 7.0f));
    p.pack();
    check_constant(p, 2);
  }
  struct Codes {
    Dtype dtype;
    size_t first, end;  ///< of codes in a block, behind scales or in front of them
    std::vector<uint8_t> values;
  };
  // Files may hold codes of -128.
  for (const Codes& codes :
       {Codes{Dtype::kQ4_K, 16, 144, {0, 0xff}}, Codes{Dtype::kQ6_K, 0, 192, {0, 0xff}},
        Codes{Dtype::kQ8_0, 2, 34, {0x80}}, Codes{Dtype::kQ4_1, 4, 20, {0xff}}, Codes{Dtype::kQ5_0, 2, 22, {0, 0xff}},
        Codes{Dtype::kQ5_1, 4, 24, {0xff}}, Codes{Dtype::kQ5_K, 16, 176, {0xff}}, Codes{Dtype::kQ3_K, 0, 96, {0, 0xff}},
        Codes{Dtype::kQ2_K, 16, 80, {0xff}}, Codes{Dtype::kIq4Nl, 2, 18, {0, 0xff}},
        Codes{Dtype::kIq4Xs, 8, 136, {0, 0xff}}, Codes{Dtype::kIq2S, 2, 74, {0, 0xff}},
        Codes{Dtype::kIq3Xxs, 2, 98, {0, 0xff}}, Codes{Dtype::kIq3S, 2, 106, {0, 0xff}}}) {
    for (const auto& [value, rows, sign] : grid(codes.values, Sizes{3, 13, 33}, std::vector{2.0f, -2.0f})) {
      Product p(kInt8, format_of_blocks(codes.dtype), rows, 33, dtype_block(codes.dtype).elements == 32 ? 96 : 512);
      std::vector<std::byte> blocks = random_blocks(codes.dtype, p.n, p.k, 2);
      const size_t bytes = dtype_block(codes.dtype).bytes;
      for (size_t at = 0; at < blocks.size(); ++at) {
        if (at % bytes >= codes.first && at % bytes < codes.end) blocks[at] = std::byte{value};
      }
      p.pack(codes.dtype, blocks);
      check_constant(p, sign);
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("bf16 gemm: numbers below 2^-126 are zero in every set, and only while it runs") {
  Product p(kBf16, kBf16Format, 20, 40, 70);
  // Products from 2^-160 to 2^-100, whose sums are partly below 2^-126; every fifth operand is below it itself.
  for (size_t i = 0; i < p.x.size(); ++i) {
    p.x[i] = std::ldexp(p.x[i], i % 5 == 0 ? -128 : -50 - static_cast<int>(i % 31));
  }
  for (size_t i = 0; i < p.w.size(); ++i) {
    p.w[i] = std::ldexp(p.w[i], i % 7 == 0 ? -130 : -50 - static_cast<int>(i % 29));
  }
  p.pack();
  const std::vector<float> y = p.run();
  CHECK(std::ranges::any_of(y, [](float value) { return value != 0; }));
  CHECK(std::ranges::none_of(y, [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }));
  volatile float least = std::numeric_limits<float>::min();
  CHECK(least / 2 > 0);
}

TEST_CASE("bf16 gemm: sums that round up to 2^-126 stay, those that round below it become zero") {
  for (const int exponent : {-148, -149, -150, -151, -152, -153, -160}) {
    CASE(exponent);
    Product p(kBf16, kBf16Format, 17, 33, 4);
    std::ranges::fill(p.x, 0.0f);
    std::ranges::fill(p.w, 0.0f);
    for (size_t row = 0; row < p.rows; ++row) {
      p.x[row * p.k] = std::ldexp(1.0f, -63);
      p.x[row * p.k + 2] = -std::ldexp(1.0f, exponent + 76);
    }
    for (size_t column = 0; column < p.n; ++column) {
      p.w[column * p.k] = std::ldexp(1.0f, -63);
      p.w[column * p.k + 2] = std::ldexp(1.0f, -76);
    }
    p.pack();
    // 2^-126 - 2^exponent, rounded to 24 bits as if there were no least exponent.
    const double exact = std::ldexp(1.0, -126) - std::ldexp(1.0, exponent);
    const auto rounded = std::ldexp(static_cast<double>(static_cast<float>(std::ldexp(exact, 100))), -100);
    const float expected = rounded < std::ldexp(1.0, -126) ? 0.0f : static_cast<float>(rounded);
    for (const float y : p.run()) REQUIRE(y == expected);
  }
}
#endif

/// Bytes that end at the beginning of protected memory.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), pages_((bytes + 4095) / 4096 * 4096) {
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, pages_ + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(memory_ + pages_, 4096, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(memory_, pages_ + 4096); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  std::byte* data() const { return memory_ + pages_ - bytes_; }
  float* floats() const { return reinterpret_cast<float*>(data()); }

 private:
  size_t bytes_, pages_;
  std::byte* memory_;
};

TEST_CASE("gemm: reads and writes nothing beyond the last panel, row and result") {
  for (const auto& [format, rows, n, k] :
       grid(all_formats(), Sizes{1, 4, 13, 33}, Sizes{1, 17, 32, 40}, Sizes{1, 5, 33, 100})) {
    const Product p(kF32, format, rows, n, k);
    Guarded panels(p.panels.size()), x(rows * p.k * 4), y(rows * n * 4), codes(rounded_bytes(rows, p.k, format));
    std::memcpy(panels.data(), p.panels.data(), p.panels.size());
    std::memcpy(x.data(), p.x.data(), rows * p.k * 4);
    for (const CpuKernels* kernels : kernel_sets()) {
      const GemmTask task{x.floats(),          p.k,        rows, panels.data(),   format, p.k, n, 0,
                          p.matrix().panels(), y.floats(), n,    Epilogue::kStore};
      kernels->gemm(task);
      if (format == kF32Format) continue;
      const RoundedRows in = rounded_rows({codes.data(), rounded_bytes(rows, p.k, format)}, rows, p.k, format);
      kernels->round_rows({x.floats(), p.k, rows, p.k, format}, in);
      kernels->gemm_rounded(task, in);
    }
  }
}

}  // namespace
