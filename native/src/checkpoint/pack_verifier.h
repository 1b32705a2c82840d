#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/pack.h"
#include "checkpoint/pack_sources.h"
#include "core/file.h"
#include "expert/expert_file.h"
#include "weights/panels.h"

namespace sida {

/// The largest error of a format, mostly half a step, relative to the largest weight that shares the scale: of the
/// channel for int8, of the group for grouped types, the weight itself for bf16. 0 for f32 and for types that are only
/// copied.
double error_bound(WeightFormat format);

/// Compares a pack's weights with those of the checkpoint it was made from, chunk by chunk.
class PackVerifier {
 public:
  /// Largest relative error found so far, and the largest that was allowed; see error_bound.
  struct Errors {
    double largest = 0, bound = 0;

    void add(double allowed, double found) {
      largest = std::max(largest, found);
      bound = std::max(bound, allowed);
    }
  };
  struct Report {
    Errors experts, dense;
  };

  /// Throws checkpoint_invalid, pack_invalid or io_error.
  PackVerifier(const std::string& checkpoint, const std::string& pack);

  const Pack& pack() const { return pack_; }
  const Report& report() const { return report_; }
  /// Throw pack_invalid naming matrix, row, error found and bound where the bound is exceeded, or where an
  /// int8 column's sum is not that of its codes.
  void check_dense(size_t begin, size_t end);
  void check_experts(size_t begin, size_t end);

 private:
  /// A chunk of a matrix against rows_; gives its largest error, at most `bound`. `first_row` is for messages.
  double compare(const PanelMatrix& packed, double bound, uint64_t first_row, const std::string& file,
                 const std::string& matrix) const;

  Checkpoint checkpoint_;
  Pack pack_;
  File dense_;
  std::unique_ptr<ExpertFile> experts_;
  Report report_;
  std::vector<float> rows_;
  std::vector<std::byte> block_;
};

}  // namespace sida
