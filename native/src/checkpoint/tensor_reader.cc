// The data half of Checkpoint: reads in pieces, so that a tensor is never in memory twice.
#include <algorithm>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_error.h"

namespace sida {
namespace {

constexpr size_t kPieceBytes = 256 << 10;

void convert(Dtype from, const void* in, size_t count, float* out) {
  const auto* halves = static_cast<const uint16_t*>(in);
  from == Dtype::kBF16 ? bf16_to_f32(halves, count, out) : f16_to_f32(halves, count, out);
}

void convert(Dtype from, const void* in, size_t count, uint16_t* out) {
  if (from == Dtype::kF32) return f32_to_bf16(static_cast<const float*>(in), count, out);
  const auto* halves = static_cast<const uint16_t*>(in);
  for (size_t i = 0; i < count; ++i) out[i] = f32_to_bf16(f16_to_f32(halves[i]));
}

template <typename T>
void read_as(Dtype same, const SafetensorsFile& file, const TensorInfo& tensor, uint64_t first,
             uint64_t count, T* out) {
  if (!is_float(tensor.dtype)) {
    throw checkpoint_error({file.display(),
                            tensor.name,
                            "cannot be read as numbers",
                            "F32, BF16 or F16",
                            dtype_name(tensor.dtype),
                            "",
                            {}});
  }
  const uint64_t elements = tensor.elements();
  if (first > elements || count > elements - first) {
    throw Error("internal",
                "read past tensor \"" + escape_text(tensor.name) + "\": " + std::to_string(count) +
                    " elements from " + std::to_string(first) + " of " + std::to_string(elements) +
                    ". This is a bug.",
                expected_found(elements, first + count));
  }
  const size_t width = static_cast<size_t>(dtype_bits(tensor.dtype)) / 8;
  const uint64_t offset = tensor.offset + first * width;
  if (tensor.dtype == same) {
    file.file().pread_exact(offset, out, count * width);
  } else {
    const size_t piece = std::min<uint64_t>(count, kPieceBytes / width);
    const auto buffer = std::make_unique<float[]>(piece * width / sizeof(float) + 1);
    for (uint64_t done = 0; done < count; done += piece) {
      const size_t now = std::min<uint64_t>(piece, count - done);
      file.file().pread_exact(offset + done * width, buffer.get(), now * width);
      convert(tensor.dtype, buffer.get(), now, out + done);
    }
  }
  file.file().check_unchanged();
}

}  // namespace

void Checkpoint::read_f32(const TensorInfo& tensor, float* out) const {
  read_f32(tensor, 0, tensor.elements(), out);
}

void Checkpoint::read_f32(const TensorInfo& tensor, uint64_t first, uint64_t count, float* out) const {
  read_as(Dtype::kF32, files_.at(tensor.file), tensor, first, count, out);
}

void Checkpoint::read_bf16(const TensorInfo& tensor, uint16_t* out) const {
  read_bf16(tensor, 0, tensor.elements(), out);
}

void Checkpoint::read_bf16(const TensorInfo& tensor, uint64_t first, uint64_t count, uint16_t* out) const {
  read_as(Dtype::kBF16, files_.at(tensor.file), tensor, first, count, out);
}

}  // namespace sida
