// Numbers of GGUF files against the public decoder, bit by bit.
#include "core/ggml_blocks.h"

#include <cctype>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/gguf_cases.h"

namespace sida {
namespace {

std::vector<float> decode(const TensorInfo& tensor, const std::vector<std::byte>& data) {
  std::vector<float> numbers(tensor.elements());
  if (is_blocked(tensor.dtype)) {
    dequantize(tensor.dtype, data.data(), data.size() / dtype_block(tensor.dtype).bytes, numbers.data());
  } else if (tensor.dtype == Dtype::kF32) {
    std::memcpy(numbers.data(), data.data(), data.size());
  } else {
    std::vector<uint16_t> halves(tensor.elements());
    std::memcpy(halves.data(), data.data(), data.size());
    tensor.dtype == Dtype::kF16 ? f16_to_f32(halves.data(), halves.size(), numbers.data())
                                : bf16_to_f32(halves.data(), halves.size(), numbers.data());
  }
  return numbers;
}

TEST_CASE("numbers of GGUF: those of the public decoder, bit by bit, for any codes and finite scales") {
  const testing::GgufCases cases;
  std::map<Dtype, int> tensors;
  for (const TensorInfo& tensor : cases.tensors()) {
    CAPTURE(tensor.name);
    std::string type = dtype_name(tensor.dtype);
    for (char& letter : type) letter = static_cast<char>(std::tolower(letter));
    CHECK(tensor.name.starts_with(type + "."));
    const std::vector<float> found = decode(tensor, cases.data(tensor)), expected = cases.numbers(tensor);
    REQUIRE(found.size() == expected.size());
    CHECK(std::memcmp(found.data(), expected.data(), expected.size() * sizeof(float)) == 0);
    ++tensors[tensor.dtype];
  }
  CHECK(tensors.size() == 8);
  CHECK(tensors[Dtype::kGgmlMxfp4] == 4);
}

}  // namespace
}  // namespace sida
