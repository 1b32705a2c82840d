// The part of Checkpoint that reads data. It reads in chunks, so that a tensor is never in memory twice.
#include <algorithm>
#include <memory>

#include "checkpoint/checkpoint.h"
#include "checkpoint/finite_blocks.h"
#include "core/checkpoint_error.h"
#include "core/ggml_blocks.h"

namespace sida {
namespace {

constexpr size_t kChunkBytes = 256 << 10;

void widen(Dtype from, const uint16_t* halves, size_t count, float* out) {
  from == Dtype::kBF16 ? bf16_to_f32(halves, count, out) : f16_to_f32(halves, count, out);
}

void check_unchanged(const WeightFile& file) {
  if (file.file.unchanged()) return;
  throw checkpoint_error({file.display,
                          "",
                          "changed while it was read",
                          "the file that was opened, of " + std::to_string(file.file.size()) + " bytes",
                          "another size or time",
                          "try again once it is whole",
                          {}});
}

void read(const WeightFile& file, uint64_t offset, void* out, size_t bytes) {
  try {
    file.file.pread_exact(offset, out, bytes);
  } catch (const Error&) {
    // The read may have failed because the file was cut; report that then.
    check_unchanged(file);
    throw;
  }
}

/// Elements [first, first + count) of a tensor of blocks. The first and the last block may be there in part.
void read_blocked(const WeightFile& file, const TensorInfo& tensor, uint64_t first, uint64_t count, float* out) {
  const DtypeBlock block = dtype_block(tensor.dtype);
  const size_t most = kChunkBytes / block.bytes;
  std::vector<std::byte> data;
  std::vector<float> numbers;
  while (count > 0) {
    const uint64_t skipped = first % block.elements;
    const size_t blocks = std::min<uint64_t>(most, (skipped + count + block.elements - 1) / block.elements);
    data.resize(blocks * block.bytes);
    numbers.resize(blocks * block.elements);
    read(file, tensor.offset + first / block.elements * block.bytes, data.data(), data.size());
    check_finite_blocks(file.display, tensor, first / block.elements, data);
    dequantize(tensor.dtype, data.data(), blocks, numbers.data());
    const uint64_t taken = std::min<uint64_t>(count, numbers.size() - skipped);
    std::copy_n(numbers.begin() + static_cast<ptrdiff_t>(skipped), taken, out);
    first += taken;
    count -= taken;
    out += taken;
  }
}

}  // namespace

void Checkpoint::read_f32(const TensorInfo& tensor, float* out) const { read_f32(tensor, 0, tensor.elements(), out); }

void Checkpoint::read_f32(const TensorInfo& tensor, uint64_t first, uint64_t count, float* out) const {
  const WeightFile& file = files_.at(tensor.file);
  if (!is_float(tensor.dtype) && !is_blocked(tensor.dtype)) {
    throw checkpoint_error(
        {file.display, tensor.name, "cannot be read as numbers", "F32, BF16 or F16", dtype_name(tensor.dtype), "", {}});
  }
  const uint64_t elements = tensor.elements();
  if (first > elements || count > elements - first) {
    throw Error("internal",
                "read past tensor \"" + escape_text(tensor.name) + "\": " + std::to_string(count) + " elements from " +
                    std::to_string(first) + " of " + std::to_string(elements) + ". This is a bug.",
                expected_found(elements, first + count));
  }
  const size_t width = dtype_block(tensor.dtype).bytes;
  const uint64_t offset = tensor.offset + first * width;
  if (is_blocked(tensor.dtype)) {
    read_blocked(file, tensor, first, count, out);
  } else if (tensor.dtype == Dtype::kF32) {
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
  const WeightFile& file = files_.at(tensor.file);
  if (first > tensor.bytes || count > tensor.bytes - first) {
    throw Error("internal", "read past tensor \"" + escape_text(tensor.name) + "\". This is a bug.",
                expected_found(tensor.bytes, first + count));
  }
  read(file, tensor.offset + first, out, count);
  check_unchanged(file);
}

}  // namespace sida
