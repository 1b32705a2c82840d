// The part of Checkpoint that reads data. It reads in chunks, so that a tensor is never in memory twice.
#include <algorithm>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "core/checkpoint_error.h"

namespace sida {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

void widen(Dtype from, const uint16_t* halves, size_t count, float* out) {
  from == Dtype::kBF16 ? bf16_to_f32(halves, count, out) : f16_to_f32(halves, count, out);
}

void check_unchanged(const SafetensorsFile& file) {
  if (file.file().unchanged()) return;
  throw checkpoint_error({file.display(),
                          "",
                          "changed while it was read",
                          "the file that was opened, of " + std::to_string(file.file().size()) + " bytes",
                          "another size or time",
                          "try again once it is whole",
                          {}});
}

void read(const SafetensorsFile& file, uint64_t offset, void* out, size_t bytes) {
  try {
    file.file().pread_exact(offset, out, bytes);
  } catch (const Error&) {
    // The read may have failed because the file was cut; report that then.
    check_unchanged(file);
    throw;
  }
}

}  // namespace

void Checkpoint::read_f32(const TensorInfo& tensor, float* out) const {
  read_f32(tensor, 0, tensor.elements(), out);
}

void Checkpoint::read_f32(const TensorInfo& tensor, uint64_t first, uint64_t count, float* out) const {
  const SafetensorsFile& file = files_.at(tensor.file);
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
  if (tensor.dtype == Dtype::kF32) {
    read(file, offset, out, count * width);
  } else {
    const size_t chunk = std::min<uint64_t>(count, kChunkBytes / width);
    const auto buffer = std::make_unique<uint16_t[]>(chunk);
    for (uint64_t done = 0; done < count; done += chunk) {
      const size_t now = std::min<uint64_t>(chunk, count - done);
      read(file, offset + done * width, buffer.get(), now * width);
      widen(tensor.dtype, buffer.get(), now, out + done);
    }
  }
  check_unchanged(file);
}

void Checkpoint::read_bytes(const TensorInfo& tensor, uint64_t first, uint64_t count, void* out) const {
  const SafetensorsFile& file = files_.at(tensor.file);
  if (first > tensor.bytes || count > tensor.bytes - first) {
    throw Error("internal", "read past tensor \"" + escape_text(tensor.name) + "\". This is a bug.",
                expected_found(tensor.bytes, first + count));
  }
  read(file, tensor.offset + first, out, count);
  check_unchanged(file);
}

}  // namespace sida
