#include "engine/dense_loader.h"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"

namespace sida {
namespace {

constexpr uint64_t kChunk = 4 << 20;
/// Reads in flight. With one, a cold disk idles while its bytes are copied.
constexpr size_t kReaders = 4;

struct Chunk {
  uint64_t in_file, in_memory, bytes;
};

/// Tensors that follow each other in the file are read together.
std::vector<Chunk> chunks_of(const DenseLayout& file, const DenseLayout& wanted) {
  std::vector<Chunk> chunks;
  uint64_t file_begin = 0, begin = 0;
  const auto add_until = [&](uint64_t end) {
    for (uint64_t done = 0; begin + done < end; done += kChunk) {
      chunks.push_back({file_begin + done, begin + done, std::min(kChunk, end - begin - done)});
    }
  };
  auto source = file.tensors.begin();
  for (const DenseTensor& tensor : wanted.tensors) {
    while (source->name != tensor.name) ++source;
    if (source->offset - file_begin == tensor.offset - begin) continue;
    add_until(tensor.offset);
    file_begin = source->offset;
    begin = tensor.offset;
  }
  add_until(wanted.bytes);
  return chunks;
}

/// Several threads share the chunks.
class DenseReader {
 public:
  DenseReader(const File& file, std::vector<Chunk> chunks, const DeviceBuffer& dense, Backend& backend)
      : file_(file), chunks_(std::move(chunks)), dense_(dense), backend_(backend) {}

  void run() {
    {
      std::vector<std::jthread> others;
      try {
        while (others.size() + 1 < std::min(kReaders, chunks_.size())) others.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        // Fewer threads read all of it too.
      }
      work();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void work() {
    try {
      const auto writer = backend_.writer();
      for (size_t i; (i = next_++) < chunks_.size();) read(chunks_[i], *writer);
      writer->finish();
    } catch (...) {
      next_ = chunks_.size();
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void read(const Chunk& chunk, DeviceWriter& writer) {
    std::byte* target = dense_.data() + chunk.in_memory;
    writer.begin(chunk.bytes);
    std::byte* buffer = writer.buffer_for(target, chunk.bytes);
    // The kernel's own read-ahead loses its track when several threads read one file.
    posix_fadvise(file_.descriptor(), static_cast<off_t>(chunk.in_file), static_cast<off_t>(chunk.bytes),
                  POSIX_FADV_WILLNEED);
    file_.pread_exact(chunk.in_file, buffer, chunk.bytes);
    writer.send(target, buffer, chunk.bytes);
  }

  const File& file_;
  const std::vector<Chunk> chunks_;
  const DeviceBuffer& dense_;
  Backend& backend_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

DeviceBuffer load_dense(DeviceMemory& memory, const Pack& pack, const DenseLayout& layout) {
  const File file = pack.open_dense();
  if (file.size() != pack.dense.bytes) {
    throw Error("pack_invalid", pack.dense_path() + ": size: expected " + std::to_string(pack.dense.bytes) +
                                    " bytes, found " + std::to_string(file.size()) + "; convert the model again");
  }
  DeviceBuffer dense(memory, layout.bytes, Touch::kByCaller);
  DenseReader(file, chunks_of(pack.dense, layout), dense, memory.backend()).run();
  return dense;
}

}  // namespace sida
