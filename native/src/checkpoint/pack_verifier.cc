#include "checkpoint/pack_verifier.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "weights/coded_panels.h"
#include "weights/panels.h"

namespace sida {
namespace {

/// Below this a scale is denormal and its steps are coarser.
double denormal_step(WeightFormat format) {
  const bool half = format.type == WeightType::kQ8_0 || format.type == WeightType::kQ4_0;
  return half ? 127 * 0x1p-25 : 0x1p-130;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

double difference(float expected, float found) {
  if (expected == found || (std::isnan(expected) && std::isnan(found))) return 0;
  const double error = std::abs(static_cast<double>(found) - expected);
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

/// Largest error of a row, relative to the largest weight that shares a scale with it.
double row_error(const float* expected, const float* found, size_t k, WeightFormat format) {
  const size_t span = format.type == WeightType::kInt8 ? k : std::max<size_t>(format.group, 1);
  double largest = 0;
  for (size_t begin = 0; begin < k; begin += span) {
    double top = 0, error = 0;
    for (size_t i = begin; i < std::min(begin + span, k); ++i) {
      top = std::max(top, std::abs(static_cast<double>(expected[i])));
      error = std::max(error, difference(expected[i], found[i]));
    }
    if (format != kF32Format) error = std::max(0.0, error - denormal_step(format));
    if (error > 0) largest = std::max(largest, top > 0 ? error / top : std::numeric_limits<double>::infinity());
  }
  return largest;
}

/// Nothing is lost where a quantized matrix keeps its type.
double bound_of(const SlotData& source, WeightFormat format) {
  return quantized(format) && own_format(source) == format ? 0 : error_bound(format);
}

/// Whether each column's stored sum in an int8 panel equals the sum of its codes.
bool sums_hold(const std::byte* panel, size_t k) {
  const size_t bytes = code_bytes(k, WeightType::kInt8);
  int32_t sums[kPanelColumns] = {};
  for (size_t i = 0; i < bytes; ++i) sums[i % kPanelStepBytes / 4] += static_cast<int8_t>(panel[i]);
  const auto* found = reinterpret_cast<const int32_t*>(panel + bytes) + kPanelColumns;
  return std::equal(sums, sums + kPanelColumns, found);
}

Error damaged(const std::string& file, const std::string& what, const std::string& expected, const std::string& found) {
  return Error("pack_invalid",
               file + ": " + what + ": expected " + expected + ", found " + found + "; convert the model again");
}

}  // namespace

double error_bound(WeightFormat format) {
  switch (format.type) {
    case WeightType::kF32:
      return 0;
    case WeightType::kBf16:
    case WeightType::kBf16c:
      return 0x1p-8;
    case WeightType::kInt8:
      return 0.5 / 127 * (1 + 1e-5);
    case WeightType::kInt4:
      // The scale is rounded to bf16.
      return 0.5 / 7 * (1 + 0x1p-7);
    case WeightType::kQ8_0:
      // The codes are chosen for the scale before it is rounded to f16.
      return 0.5 / 127 + 0x1p-11;
    case WeightType::kQ4_0:
      // A weight near the negative of the largest one would have code 8, and has 7.
      return 1.0 / 8 + 0x1p-11;
    case WeightType::kMxfp4:
      // A largest weight of nearly 8 powers of two becomes 6 of them.
      return 0.25;
    default:
      break;
  }
  // The others are only copied.
  return 0;
}

PackVerifier::PackVerifier(const std::string& checkpoint, const std::string& pack)
    : checkpoint_(Checkpoint::open(checkpoint)),
      pack_(open_pack(pack)),
      dense_(pack_.open_dense()),
      experts_(open_experts(pack_)) {
  if (checkpoint_.spec().family != pack_.spec.family) {
    throw damaged(pack_.directory, "model_type", checkpoint_.spec().family, pack_.spec.family);
  }
}

double PackVerifier::compare(const PanelMatrix& packed, double bound, uint64_t first_row, const std::string& file,
                             const std::string& matrix) const {
  const size_t k = packed.k, rows = packed.n;
  const WeightFormat format = packed.format;
  std::vector<float> found(k);
  double largest = 0;
  for (size_t row = 0; row < rows; ++row) {
    read_panel_row(packed, row, found.data());
    const double error = row_error(rows_.data() + row * k, found.data(), k, format);
    if (!(error <= bound)) {
      throw damaged(file, matrix + ": relative error of row " + std::to_string(first_row + row),
                    "at most " + percent(bound), percent(error));
    }
    largest = std::max(largest, error);
  }
  for (size_t panel = 0; panel < packed.panels(); ++panel) {
    const std::byte* at = packed.data + panel * panel_bytes(k, format);
    const auto rows_from = [&] { return matrix + ": rows from " + std::to_string(first_row + panel * kPanelColumns); };
    if (format == kInt8Format && !sums_hold(at, k)) {
      throw damaged(file, rows_from(), "the sums of their codes", "others");
    }
    if (format == kBf16cFormat && !codes_hold(at, k)) {
      throw damaged(file, rows_from(), "escapes in the order of their places", "others");
    }
  }
  return largest;
}

void PackVerifier::check_dense(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    const DenseTensor& tensor = pack_.dense.tensors.at(i);
    const SlotData source = checkpoint_.source_of(tensor.slot);
    const uint64_t n = tensor.rows();
    const uint64_t k = tensor.columns();
    const uint64_t chunk = rows_at_a_time(k);
    uint64_t offset = tensor.offset;
    for (uint64_t row = 0; row < n; row += chunk) {
      const uint64_t rows = std::min(chunk, n - row);
      read_rows(checkpoint_, source, row, rows, k, tensor.format, rows_);
      block_.resize(tensor.panels() ? panel_matrix_bytes(rows, k, tensor.format) : rows * k * sizeof(float));
      dense_.pread_exact(offset, block_.data(), block_.size());
      offset += block_.size();
      if (tensor.panels()) {
        const double bound = bound_of(source, tensor.format);
        report_.dense.add(
            bound, compare({block_.data(), tensor.format, k, rows}, bound, row, pack_.dense_path(), tensor.name));
        continue;
      }
      const double error = row_error(rows_.data(), reinterpret_cast<const float*>(block_.data()), rows * k, kF32Format);
      if (error > 0) {
        throw damaged(pack_.dense_path(), tensor.name, "the checkpoint's numbers", "others");
      }
    }
  }
}

void PackVerifier::check_experts(size_t begin, size_t end) {
  const ExpertLayout& layout = pack_.experts;
  for (size_t id = begin; id < end; ++id) {
    block_.resize(layout.block_bytes(static_cast<ExpertId>(id)));
    experts_->read(layout.blocks_end(id), block_.size(), block_.data());
    for (const ExpertSource& source : expert_sources(checkpoint_, pack_, static_cast<ExpertId>(id))) {
      const ExpertMatrix& matrix = source.matrix;
      const std::string name =
          expert_name(pack_, static_cast<ExpertId>(id)) + ": " + projection_name(matrix.projection);
      if (source.bias) {
        read_rows(checkpoint_, source.data, 0, matrix.n, 1, kF32Format, rows_);
        if (std::memcmp(rows_.data(), block_.data() + *matrix.bias, matrix.n * sizeof(float)) == 0) continue;
        throw damaged(pack_.expert_path(), name + " bias", "the checkpoint's numbers", "others");
      }
      read_rows(checkpoint_, source.data, 0, matrix.n, matrix.k, matrix.format, rows_);
      const double bound = bound_of(source.data, matrix.format);
      report_.experts.add(bound, compare({block_.data() + matrix.offset, matrix.format, matrix.k, matrix.n}, bound, 0,
                                         pack_.expert_path(), name));
    }
  }
}

}  // namespace sida
