#pragma once

#include "checkpoint/gguf_file.h"
#include "support/oracle_cases.h"

namespace sida::testing {

/// Tensors of every type of GGUF that is read, and their numbers by the public decoder (test/fixtures/gguf).
class GgufCases {
 public:
  const std::vector<TensorInfo>& tensors() const { return file_.tensors(); }

  const TensorInfo& tensor(std::string_view name) const {
    const auto named = [&](const TensorInfo& tensor) { return tensor.name == name; };
    const auto found = std::ranges::find_if(tensors(), named);
    REQUIRE_MESSAGE(found != tensors().end(), std::string(name));
    return *found;
  }

  std::vector<std::byte> data(const TensorInfo& tensor) const {
    std::vector<std::byte> data(tensor.bytes);
    file_.file().pread_exact(tensor.offset, data.data(), data.size());
    return data;
  }

  std::vector<float> numbers(const TensorInfo& tensor) const {
    CHECK(numbers_.shape(tensor.name) == tensor.shape);
    return numbers_.read<float>(tensor.name);
  }

 private:
  static std::string directory() { return repo() + "/test/fixtures/gguf"; }

  GgufFile file_ = GgufFile::open(directory(), "cases.gguf");
  Cases numbers_{directory()};
};

}  // namespace sida::testing
