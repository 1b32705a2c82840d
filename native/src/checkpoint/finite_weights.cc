#include "checkpoint/finite_weights.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/gguf_experts.h"
#include "checkpoint/pack_sources.h"
#include "core/error.h"
#include "core/file.h"
#include "weights/panels.h"

namespace sida {
namespace {

void check_row(const std::vector<float>& row, size_t number, const std::string& file, const std::string& matrix) {
  const auto bad = std::find_if_not(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
  if (bad == row.end()) return;
  throw Error("pack_invalid", file + ": " + matrix + ": row " + std::to_string(number) + ", column " +
                                  std::to_string(bad - row.begin()) + ": expected a finite number, found " +
                                  std::to_string(*bad) + "; the checkpoint may be damaged");
}

void check_panels(const PanelMatrix& panels, size_t first_row, const std::string& file, const std::string& matrix) {
  std::vector<float> row(panels.k);
  for (size_t i = 0; i < panels.n; ++i) {
    read_panel_row(panels, i, row.data());
    check_row(row, first_row + i, file, matrix);
  }
}

}  // namespace

void check_dense_finite(const Pack& pack) {
  const File file = pack.open_dense();
  std::vector<std::byte> data;
  for (const DenseTensor& tensor : pack.dense.tensors) {
    const size_t n = tensor.rows();
    const size_t k = tensor.columns();
    const size_t chunk = rows_at_a_time(k);
    uint64_t offset = tensor.offset;
    for (size_t row = 0; row < n; row += chunk) {
      const size_t rows = std::min(chunk, n - row);
      data.resize(tensor.panels() ? panel_matrix_bytes(rows, k, tensor.format) : rows * k * sizeof(float));
      file.pread_exact(offset, data.data(), data.size());
      offset += data.size();
      if (tensor.panels()) {
        check_panels({data.data(), tensor.format, k, rows}, row, pack.dense_path(), tensor.name);
        continue;
      }
      const auto* values = reinterpret_cast<const float*>(data.data());
      for (size_t i = 0; i < rows; ++i) {
        check_row({values + i * k, values + (i + 1) * k}, row + i, pack.dense_path(), tensor.name);
      }
    }
  }
}

void check_experts_finite(const Pack& pack, size_t begin, size_t end) {
  const ExpertLayout& layout = pack.experts;
  const std::unique_ptr<ExpertFile> experts = open_experts(pack);
  std::vector<std::byte> block;
  for (size_t id = begin; id < std::min(end, layout.experts()); ++id) {
    block.resize(layout.block_bytes(static_cast<ExpertId>(id)));
    experts->read(layout.blocks_end(id), block.size(), block.data());
    const std::string name = expert_name(pack, static_cast<ExpertId>(id));
    const BlockLayout& matrices = layout.layers[layout.shape.place(static_cast<ExpertId>(id)).layer];
    for (const ExpertMatrix& matrix : matrices.matrices) {
      const PanelMatrix panels = matrices.matrix(block.data(), matrix.projection);
      const std::string what = name + ": " + projection_name(matrix.projection);
      check_panels(panels, 0, pack.expert_path(), what);
      if (panels.bias == nullptr) continue;
      check_row({panels.bias, panels.bias + panels.n}, 0, pack.expert_path(), what + " bias");
    }
  }
}

}  // namespace sida
