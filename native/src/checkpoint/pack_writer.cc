#include "checkpoint/pack_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "checkpoint/pack_sources.h"
#include "core/error.h"

namespace sida {
namespace {

int open_for_writing(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) throw Error("io_error", path + ": cannot be written: " + std::strerror(errno));
  return fd;
}

void sync_and_close(int fd, const std::string& path) {
  const bool synced = fsync(fd) == 0;
  const int reason = errno;
  ::close(fd);
  if (!synced) throw Error("io_error", path + ": fsync failed: " + std::strerror(reason));
}

}  // namespace

PackWriter::PackWriter(const std::string& checkpoint, const std::string& directory, std::optional<WeightFormat> experts,
                       std::optional<WeightFormat> dense, bool in_place)
    : checkpoint_(Checkpoint::open(checkpoint)) {
  checkpoint_->check_tensors();
  if (in_place) pack_.gguf = checkpoint;
  open(directory, chosen_formats(*checkpoint_, experts, dense));
}

PackWriter::PackWriter(Checkpoint checkpoint, const std::string& directory, PackFormats formats)
    : checkpoint_(std::move(checkpoint)) {
  checkpoint_->check_tensors();
  open(directory, std::move(formats));
}

void PackWriter::open(const std::string& directory, PackFormats formats) {
  const std::string gguf = std::move(pack_.gguf);
  pack_ = describe_pack(directory, checkpoint_->spec(), std::move(formats));
  pack_.gguf = gguf;
  if (gguf.empty()) expert_fd_ = open_for_writing(pack_.expert_path(), 0);
}

PackWriter::~PackWriter() {
  if (expert_fd_ >= 0) ::close(expert_fd_);
}

void PackWriter::write_at(int fd, const std::string& path, uint64_t offset, const std::byte* data, uint64_t bytes) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw Error("io_error", path + ": writing " + std::to_string(bytes) + " bytes at offset " +
                                  std::to_string(offset) + " failed: " + std::strerror(errno));
    }
    data += written;
    offset += static_cast<uint64_t>(written);
    bytes -= static_cast<uint64_t>(written);
  }
}

const Checkpoint& PackWriter::opened() const {
  if (!checkpoint_) throw Error("internal", "the pack writer is closed");
  return *checkpoint_;
}

void PackWriter::write_dense() {
  const std::string path = pack_.dense_path();
  const int fd = open_for_writing(path, O_TRUNC);
  try {
    for (const DenseTensor& tensor : pack_.dense.tensors) write_dense_tensor(fd, path, tensor);
    if (ftruncate(fd, static_cast<off_t>(pack_.dense.bytes)) != 0) {
      throw Error("io_error", path + ": cannot be extended: " + std::strerror(errno));
    }
  } catch (...) {
    ::close(fd);
    throw;
  }
  sync_and_close(fd, path);
}

void PackWriter::write_dense_tensor(int fd, const std::string& path, const DenseTensor& tensor) {
  const SlotData source = opened().source_of(tensor.slot);
  const uint64_t n = tensor.rows();
  const uint64_t k = tensor.columns();
  const uint64_t chunk = rows_at_a_time(k);
  uint64_t offset = tensor.offset;
  for (uint64_t row = 0; row < n; row += chunk) {
    const uint64_t rows = std::min(chunk, n - row);
    if (!tensor.panels()) {
      read_rows(opened(), source, row, rows, k, tensor.format, rows_);
      write_at(fd, path, offset, reinterpret_cast<const std::byte*>(rows_.data()), rows * k * sizeof(float));
      offset += rows * k * sizeof(float);
      continue;
    }
    block_.resize(panel_matrix_bytes(rows, k, tensor.format));
    pack_rows(opened(), source, row, rows, k, tensor.format, rows_, block_.data());
    write_at(fd, path, offset, block_.data(), block_.size());
    offset += block_.size();
  }
}

void PackWriter::write_experts(size_t begin, size_t end) {
  const Checkpoint& checkpoint = opened();
  const ExpertLayout& layout = pack_.experts;
  if (begin > end || end > layout.experts()) {
    throw Error("invalid_request", "experts " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
                                       std::to_string(layout.experts()));
  }
  if (!pack_.gguf.empty()) return check_experts(begin, end);
  for (size_t id = begin; id < end; ++id) {
    block_.assign(layout.block_bytes(static_cast<ExpertId>(id)), std::byte{0});
    for (const ExpertSource& source : expert_sources(checkpoint, pack_, static_cast<ExpertId>(id))) {
      const ExpertMatrix& matrix = source.matrix;
      if (source.bias) {
        read_rows(checkpoint, source.data, 0, matrix.n, 1, kF32Format, rows_);
        std::memcpy(block_.data() + *matrix.bias, rows_.data(), matrix.n * sizeof(float));
        continue;
      }
      pack_rows(checkpoint, source.data, 0, matrix.n, matrix.k, matrix.format, rows_, block_.data() + matrix.offset);
    }
    write_at(expert_fd_, pack_.expert_path(), layout.blocks_end(id), block_.data(), block_.size());
  }
}

void PackWriter::check_experts(size_t begin, size_t end) {
  for (size_t id = begin; id < end; ++id) {
    for (const ExpertSource& source : expert_sources(opened(), pack_, static_cast<ExpertId>(id))) {
      const ExpertMatrix& matrix = source.matrix;
      if (!source.bias) read_block_rows(opened(), source.data, 0, matrix.n, matrix.k, block_);
    }
  }
}

void PackWriter::close() {
  const int fd = std::exchange(expert_fd_, -1);
  // Freed now: JavaScript may keep this object alive for long.
  checkpoint_.reset();
  rows_ = {};
  block_ = {};
  if (fd >= 0) sync_and_close(fd, pack_.expert_path());
}

}  // namespace sida
