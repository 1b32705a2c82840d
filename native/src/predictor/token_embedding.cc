#include "predictor/token_embedding.h"

#include <algorithm>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack.h"
#include "checkpoint/pack_sources.h"
#include "checkpoint/safetensors_file.h"
#include "checkpoint/slot_reader.h"
#include "core/checkpoint_error.h"
#include "predictor/safetensors_writer.h"
#include "weights/panels.h"

namespace sida {
namespace {

constexpr uint64_t kChunkBytes = 4 << 20;
// Limits of a file's shape: token ids are 31 bits, widths are those of a predictor's input.
constexpr uint64_t kMaxEmbeddings = 1u << 31;
constexpr uint64_t kMaxEmbeddingWidth = 1 << 16;

/// The embedding of a model's first stack.
const DenseTensor& embedding_of(const Pack& pack) {
  for (const DenseTensor& tensor : pack.dense.tensors) {
    if (tensor.slot.role == TensorRole::kEmbedding) return tensor;
  }
  throw Error("internal", pack.directory + ": no token embedding. This is a bug.");
}

}  // namespace

TokenEmbedding TokenEmbedding::from_pack(const std::string& directory) {
  const Pack pack = open_pack(directory);
  const DenseTensor& tensor = embedding_of(pack);
  TokenEmbedding result(tensor.rows(), tensor.columns());
  const File file = pack.open_dense();
  const size_t panel_bytes = panel_matrix_bytes(kPanelColumns, result.d_model_, tensor.format);
  const size_t rows = std::max<size_t>(1, kChunkBytes / panel_bytes) * kPanelColumns;
  std::vector<std::byte> chunk;
  uint64_t offset = tensor.offset;
  for (size_t first = 0; first < result.vocab_; first += rows) {
    const size_t count = std::min(rows, result.vocab_ - first);
    const PanelMatrix panels{nullptr, tensor.format, result.d_model_, count};
    chunk.resize(panels.panels() * panel_bytes);
    file.pread_exact(offset, chunk.data(), chunk.size());
    offset += chunk.size();
    for (size_t i = 0; i < count; ++i) {
      read_panel_row({chunk.data(), tensor.format, panels.k, panels.n}, i,
                     result.values_.data() + (first + i) * result.d_model_);
    }
  }
  return result;
}

TokenEmbedding TokenEmbedding::from_checkpoint(const std::string& directory) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const ModelSpec& spec = checkpoint.spec();
  const TensorSlot slot{TensorRole::kEmbedding, TensorForm::kMatrix, 0, 0, 0, {spec.vocab, spec.width}};
  const SlotData data = checkpoint.source_of(slot);
  TokenEmbedding result(spec.vocab, spec.width);
  const uint64_t chunk = rows_at_a_time(spec.width);
  std::vector<float> rows;
  for (uint64_t first = 0; first < spec.vocab; first += chunk) {
    read_rows(checkpoint, data, first, std::min(chunk, spec.vocab - first), spec.width, kF32Format, rows);
    std::copy(rows.begin(), rows.end(), result.values_.begin() + static_cast<ptrdiff_t>(first * spec.width));
  }
  return result;
}

TokenEmbedding TokenEmbedding::from_file(const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::vector<TensorInfo>& tensors = file.tensors();
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const TensorInfo& tensor) { return tensor.name == kEmbeddingTensor; });
  if (found == tensors.end()) {
    throw checkpoint_error(
        {file.display(), kEmbeddingTensor, "missing", "", "", "is it a token embedding's file?", {}});
  }
  if (found->dtype != Dtype::kF32) {
    throw checkpoint_error({file.display(), kEmbeddingTensor, "dtype", "F32", dtype_name(found->dtype), "", {}});
  }
  const std::vector<uint64_t>& shape = found->shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > kMaxEmbeddings || shape[1] < 1 || shape[1] > kMaxEmbeddingWidth) {
    throw checkpoint_error({file.display(), kEmbeddingTensor, "shape", "(vocab, d_model)", shape_text(shape), "", {}});
  }
  TokenEmbedding result(shape[0], shape[1]);
  file.file().pread_exact(found->offset, result.values_.data(), found->bytes);
  return result;
}

void TokenEmbedding::save(const std::string& path) const {
  const SafetensorsTensor tensor{kEmbeddingTensor, {vocab_, d_model_}, values_.data()};
  write_file_atomically(path, safetensors_bytes({&tensor, 1}));
}

}  // namespace sida
