#include "checkpoint/gguf_experts.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "checkpoint/gguf_model_files.h"
#include "checkpoint/pack_sources.h"
#include "core/error.h"
#include "weights/weight_blocks.h"

namespace sida {
namespace {

constexpr uint64_t kPage = 4096;
/// Rows are read in spans of about this many bytes, so that the buffer of a reader stays small.
constexpr uint64_t kSpan = 4 << 20;

uint64_t row_bytes(Dtype dtype, uint64_t k) {
  const DtypeBlock block = dtype_block(dtype);
  return k / block.elements * block.bytes;
}

/// Page-aligned memory that grows.
class ReadBuffer {
 public:
  std::byte* of(uint64_t bytes) {
    if (bytes <= size_) return data_.get();
    size_ = (bytes + kPage - 1) / kPage * kPage;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)));
    if (data_ == nullptr) {
      size_ = 0;
      throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  uint64_t size_ = 0;
};

bool stays(const ExpertSource& source) {
  if (source.bias) return source.data.tensor->dtype == Dtype::kF32 && source.data.row_step == 1;
  return has_block_rows(source.data, source.matrix.k) && source.data.scales == nullptr && source.data.in_order();
}

}  // namespace

bool keeps_experts(const Checkpoint& checkpoint) {
  if (!checkpoint.gguf()) return false;
  const Pack pack = describe_pack("", checkpoint.spec(), lossless_formats(checkpoint));
  for (ExpertId id = 0; id < pack.experts.experts(); ++id) {
    const std::vector<ExpertSource> sources = expert_sources(checkpoint, pack, id);
    if (!std::all_of(sources.begin(), sources.end(), stays)) return false;
  }
  return pack.experts.experts() > 0;
}

GgufExperts::GgufExperts(const Pack& pack) : path_(pack.gguf), layout_(pack.experts), starts_{0} {
  if (!is_gguf(path_)) throw Error("pack_invalid", path_ + ": expected a GGUF file");
  const Checkpoint checkpoint = Checkpoint::open(path_);
  for (const WeightFile& file : checkpoint.files()) {
    files_.push_back(std::make_unique<DiskFile>(file.file.path(), file.file.size()));
  }
  for (ExpertId id = 0; id < layout_.experts(); ++id) {
    starts_.push_back(starts_.back() + layout_.block_bytes(id));
    const std::vector<ExpertSource> sources = expert_sources(checkpoint, pack, id);
    for (const bool bias : {false, true}) {
      for (const ExpertSource& source : sources) {
        if (source.bias != bias) continue;
        if (!stays(source) || (!bias && own_format(source.data) != source.matrix.format)) {
          throw Error("pack_invalid", path_ + ": " + expert_name(pack, id) + ": " +
                                          projection_name(source.matrix.projection) +
                                          ": expected the type that the pack names; convert the model again");
        }
        const TensorInfo& tensor = *source.data.tensor;
        const uint64_t row = bias ? sizeof(float) : row_bytes(tensor.dtype, source.matrix.k);
        sources_.push_back({tensor.file, tensor.dtype, tensor.offset + source.data.first_row * row});
      }
    }
  }
}

bool GgufExperts::direct() const {
  return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return file->direct(); });
}

const std::byte* GgufExperts::source_bytes(const Source& source, uint64_t first, uint64_t bytes) {
  thread_local ReadBuffer buffer;
  const uint64_t offset = source.offset + first, begin = offset / kPage * kPage;
  const uint64_t end = (offset + bytes + kPage - 1) / kPage * kPage;
  std::byte* data = buffer.of(end - begin);
  files_[source.file]->read(begin, end - begin, data);
  return data + (offset - begin);
}

void GgufExperts::read(uint64_t offset, std::span<iovec> buffers) {
  for (const iovec& buffer : buffers) {
    fill(offset, buffer.iov_len, static_cast<std::byte*>(buffer.iov_base));
    offset += buffer.iov_len;
  }
}

void GgufExperts::fill(uint64_t offset, uint64_t bytes, std::byte* out) {
  if (offset > this->bytes() || bytes > this->bytes() - offset) {
    throw Error("io_error", path_ + ": expected " + std::to_string(bytes) + " bytes of experts at offset " +
                                std::to_string(offset) + ", found " + std::to_string(this->bytes()) + " in all");
  }
  auto id = static_cast<ExpertId>(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin() - 1);
  for (; bytes > 0; ++id) {
    const uint64_t part = std::min(bytes, starts_[id + 1] - offset);
    fill_block(id, offset - starts_[id], offset - starts_[id] + part, out);
    offset += part, out += part, bytes -= part;
  }
}

void GgufExperts::fill_block(ExpertId id, uint64_t begin, uint64_t end, std::byte* out) {
  const std::vector<ExpertMatrix>& matrices = layout_.layers[layout_.shape.place(id).layer].matrices;
  const Source* sources = &sources_[id * matrices.size() * (layout_.shape.biased ? 2 : 1)];
  // What is neither a matrix nor a bias is 0.
  uint64_t filled = begin;
  const auto clear_to = [&](uint64_t to) {
    to = std::min(to, end);
    if (filled < to) std::memset(out + (filled - begin), 0, to - filled);
    filled = std::max(filled, to);
  };
  const auto add = [&](uint64_t at, uint64_t bytes, auto&& fill_part) {
    clear_to(at);
    const uint64_t from = std::max(at, begin), to = std::min(at + bytes, end);
    if (from >= to) return;
    fill_part(from - at, to - at, out + (from - begin));
    filled = to;
  };
  for (size_t i = 0; i < matrices.size(); ++i) {
    const ExpertMatrix& matrix = matrices[i];
    add(matrix.offset, panel_matrix_bytes(matrix.n, matrix.k, matrix.format),
        [&](uint64_t from, uint64_t to, std::byte* part) { fill_matrix(matrix, sources[i], from, to, part); });
    if (!matrix.bias) continue;
    add(*matrix.bias, matrix.n * sizeof(float), [&](uint64_t from, uint64_t to, std::byte* part) {
      std::memcpy(part, source_bytes(sources[matrices.size() + i], from, to - from), to - from);
    });
  }
  clear_to(end);
}

void GgufExperts::fill_matrix(const ExpertMatrix& matrix, const Source& source, uint64_t begin, uint64_t end,
                              std::byte* out) {
  thread_local std::vector<std::byte> panel;
  const uint64_t stride = panel_bytes(matrix.k, matrix.format), row = row_bytes(source.dtype, matrix.k);
  const uint64_t last = (end + stride - 1) / stride, step = std::max<uint64_t>(1, kSpan / (row * kPanelColumns));
  for (uint64_t first = begin / stride; first < last; first += step) {
    const uint64_t rows_end = std::min<uint64_t>(std::min(first + step, last) * kPanelColumns, matrix.n);
    const std::byte* rows = source_bytes(source, first * kPanelColumns * row, (rows_end - first * kPanelColumns) * row);
    for (uint64_t i = first; i * kPanelColumns < rows_end; ++i) {
      const uint64_t count = std::min<uint64_t>(kPanelColumns, rows_end - i * kPanelColumns);
      const std::byte* of_panel = rows + (i - first) * kPanelColumns * row;
      const uint64_t from = std::max(i * stride, begin), to = std::min((i + 1) * stride, end);
      if (to - from == stride) {
        pack_blocks(source.dtype, of_panel, count, matrix.k, out + (from - begin));
        continue;
      }
      panel.resize(stride);
      pack_blocks(source.dtype, of_panel, count, matrix.k, panel.data());
      std::memcpy(out + (from - begin), panel.data() + (from - i * stride), to - from);
    }
  }
}

std::unique_ptr<ExpertFile> open_experts(const Pack& pack) {
  if (!pack.gguf.empty()) return std::make_unique<GgufExperts>(pack);
  return std::make_unique<DiskFile>(pack.expert_path(), pack.experts.blocks_end(pack.experts.experts()));
}

}  // namespace sida
