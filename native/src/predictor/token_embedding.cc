#include "predictor/token_embedding.h"

#include <algorithm>
#include <memory>
#include <utility>
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
  TokenEmbedding result(tensor.rows(), tensor.columns(), {});
  result.panels_.emplace(Panels{pack.open_dense(), tensor.offset, tensor.format});
  // A file that was cut fails here instead of at a later token.
  std::vector<float> last(result.d_model_);
  result.read(result.vocab_ - 1, 1, last.data());
  return result;
}

TokenEmbedding TokenEmbedding::from_checkpoint(const std::string& directory) {
  const Checkpoint checkpoint = Checkpoint::open(directory);
  const ModelSpec& spec = checkpoint.spec();
  const TensorSlot slot{TensorRole::kEmbedding, TensorForm::kMatrix, 0, 0, 0, {spec.vocab, spec.width}};
  const SlotData data = checkpoint.source_of(slot);
  AlignedFloats values(spec.vocab * spec.width);
  const uint64_t chunk = rows_at_a_time(spec.width);
  std::vector<float> rows;
  for (uint64_t first = 0; first < spec.vocab; first += chunk) {
    read_rows(checkpoint, data, first, std::min(chunk, spec.vocab - first), spec.width, kF32Format, rows);
    std::copy(rows.begin(), rows.end(), values.begin() + static_cast<ptrdiff_t>(first * spec.width));
  }
  return {spec.vocab, spec.width, std::move(values)};
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
  AlignedFloats values(shape[0] * shape[1]);
  file.file().pread_exact(found->offset, values.data(), found->bytes);
  return {shape[0], shape[1], std::move(values)};
}

void TokenEmbedding::read(size_t first, size_t count, float* out) const {
  if (!panels_) {
    std::copy_n(values_.data() + first * d_model_, count * d_model_, out);
    return;
  }
  const size_t bytes = panel_bytes(d_model_, panels_->format);
  const auto panel = std::make_unique_for_overwrite<std::byte[]>(bytes);
  for (size_t row = first; row < first + count; ++row, out += d_model_) {
    if (row == first || row % kPanelColumns == 0) {
      panels_->file.pread_exact(panels_->offset + row / kPanelColumns * bytes, panel.get(), bytes);
    }
    read_panel_row({panel.get(), panels_->format, d_model_, kPanelColumns}, row % kPanelColumns, out);
  }
}

void TokenEmbedding::save(const std::string& path) const {
  AlignedFloats unpacked(panels_ ? vocab_ * d_model_ : 0);
  if (panels_) read(0, vocab_, unpacked.data());
  const SafetensorsTensor tensor{kEmbeddingTensor, {vocab_, d_model_}, panels_ ? unpacked.data() : values_.data()};
  write_file_atomically(path, safetensors_bytes({&tensor, 1}));
}

}  // namespace sida
