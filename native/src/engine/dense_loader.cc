#include "engine/dense_loader.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace sida {
namespace {

constexpr uint64_t kChunk = 4 << 20;

}  // namespace

DeviceBuffer load_dense(DeviceMemory& memory, const Pack& pack, const DenseLayout& layout) {
  const File file = pack.open_dense();
  if (file.size() != pack.dense.bytes) {
    throw Error("pack_invalid", pack.dense_path() + ": size: expected " + std::to_string(pack.dense.bytes) +
                                    " bytes, found " + std::to_string(file.size()) +
                                    "; convert the model again");
  }
  DeviceBuffer dense(memory, layout.bytes);
  const auto writer = memory.backend().writer();
  // Tensors that follow each other in the file are read together.
  uint64_t file_begin = 0;
  uint64_t begin = 0;
  const auto read_until = [&](uint64_t end) {
    for (uint64_t done = 0; begin + done < end;) {
      const uint64_t bytes = std::min(kChunk, end - begin - done);
      std::byte* target = dense.data() + begin + done;
      writer->begin(bytes);
      std::byte* buffer = writer->buffer_for(target, bytes);
      file.pread_exact(file_begin + done, buffer, bytes);
      writer->send(target, buffer, bytes);
      done += bytes;
    }
  };
  auto source = pack.dense.tensors.begin();
  for (const DenseTensor& tensor : layout.tensors) {
    while (source->name != tensor.name) ++source;
    if (source->offset - file_begin == tensor.offset - begin) continue;
    read_until(tensor.offset);
    file_begin = source->offset;
    begin = tensor.offset;
  }
  read_until(layout.bytes);
  writer->finish();
  return dense;
}

}  // namespace sida
