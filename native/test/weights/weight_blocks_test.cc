// Blocks of GGUF files, packed and read back, against the public decoder's numbers.
#include "weights/weight_blocks.h"

#include "core/dtype.h"
#include "support/gguf_cases.h"
#include "support/weight_formats.h"
#include "weights/panels.h"

namespace {

/// Enough for two panels, the second one not full.
constexpr size_t kRows = 36;

template <typename T>
std::vector<T> repeated(const std::vector<T>& rows, size_t times) {
  std::vector<T> out;
  for (size_t i = 0; i < times; ++i) out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

/// The (kRows, k) numbers of packed panels.
std::vector<float> unpacked(const std::vector<std::byte>& panels, WeightFormat format, size_t k) {
  std::vector<float> numbers(kRows * k);
  for (size_t row = 0; row < kRows; ++row) read_panel_row({panels.data(), format, k, kRows}, row, &numbers[row * k]);
  return numbers;
}

TEST_CASE("weight blocks: panels give the public decoder's numbers, bit for bit, for any codes and finite scales") {
  const GgufCases cases;
  size_t packed = 0;
  for (const TensorInfo& tensor : cases.tensors()) {
    if (!is_blocked(tensor.dtype)) continue;
    CASE(tensor.name);
    const size_t k = tensor.shape.back(), times = kRows / tensor.shape.front();
    const WeightFormat format = format_of_blocks(tensor.dtype);
    std::vector<std::byte> panels(panel_matrix_bytes(kRows, k, format));
    pack_blocks(tensor.dtype, repeated(cases.data(tensor), times).data(), kRows, k, panels.data());
    CHECK(same_bits(unpacked(panels, format, k), repeated(cases.numbers(tensor), times)));
    ++packed;
  }
  CHECK(packed == 57);
}

TEST_CASE("weight blocks: weights are quantized to q8_0 and q4_0 as the public encoder does") {
  const GgufCases cases;
  const TensorInfo& weights = cases.tensor("f32.weights");
  const size_t k = weights.shape.back(), times = kRows / weights.shape.front();
  for (const WeightFormat format : {kQ8_0Format, kQ4_0Format}) {
    CASE(format);
    std::vector<std::byte> panels(panel_matrix_bytes(kRows, k, format));
    pack_panels(repeated(cases.numbers(weights), times).data(), kRows, k, format, panels.data());
    const TensorInfo& encoded = cases.tensor(std::string(weight_type_name(format.type)) + ".weights");
    CHECK(same_bits(unpacked(panels, format, k), repeated(cases.numbers(encoded), times)));
  }
}

TEST_CASE("weight blocks: a scale that is no number makes NaN or infinity of its weights only") {
  const std::map<Dtype, size_t> places{{Dtype::kQ6_K, 208}, {Dtype::kQ3_K, 108}, {Dtype::kQ2_K, 80}};
  std::vector<Dtype> types{Dtype::kQ8_0, Dtype::kQ4_0};
  types.insert(types.end(), std::begin(kCopiedTypes), std::end(kCopiedTypes));
  for (const auto& [dtype, bad] :
       grid(types, std::vector<uint16_t>{uint16_t{0x7c00}, uint16_t{0xfc00}, uint16_t{0x7e01}})) {
    CASE(dtype_name(dtype));
    const WeightFormat format = format_of_blocks(dtype);
    const size_t inputs = dtype_block(dtype).elements;
    auto blocks = random_blocks(dtype, 2, 512, 3);
    std::memcpy(blocks.data() + blocks.size() / 2 + (places.contains(dtype) ? places.at(dtype) : 0), &bad, 2);
    std::vector<std::byte> panels(panel_matrix_bytes(2, 512, format));
    pack_blocks(dtype, blocks.data(), 2, 512, panels.data());
    std::vector<float> row(512);
    const auto finite = [](float value) { return std::isfinite(value); };
    read_panel_row({panels.data(), format, 512, 2}, 0, row.data());
    CHECK(std::all_of(row.begin(), row.end(), finite));
    read_panel_row({panels.data(), format, 512, 2}, 1, row.data());
    const auto end = row.begin() + static_cast<ptrdiff_t>(inputs);
    CHECK_FALSE(std::all_of(row.begin(), end, finite));
    CHECK(std::all_of(end, row.end(), finite));
  }
}

}  // namespace
