// The check of --check-tensors reads every weight of a pack, in every element type.
#include "checkpoint/finite_weights.h"

#include <cmath>
#include <limits>

#include "doctest/doctest.h"
#include "support/error_checks.h"
#include "support/repo_paths.h"
#include "support/safetensors_builder.h"
#include "support/test_pack.h"
#include "support/tiny_model.h"

namespace sida {
namespace {

using testing::BuiltTensor;
using testing::check_has;
using testing::error_of;
using testing::TempDir;

/// A pack of the tiny model with element `at` of one tensor replaced.
void write_with(const TempDir& model, const TempDir& pack, WeightFormat format, const std::string& name,
                size_t at, float value) {
  std::vector<BuiltTensor> tensors = testing::tiny_tensors();
  for (BuiltTensor& tensor : tensors) {
    if (tensor.name == name) std::memcpy(tensor.data.data() + at * sizeof value, &value, sizeof value);
  }
  testing::write_file(model.path() + "/config.json", testing::tiny_config());
  testing::write_file(model.path() + "/model.safetensors", testing::build_safetensors(tensors));
  testing::write_pack(model.path(), pack.path(), format, format);
}

TEST_CASE("finite weights: the first weight that is not finite is named with tensor, row and column") {
  const std::string expert = "decoder.block.1.layer.2.mlp.experts.expert_2.";
  for (const WeightFormat format : {kF32Format, kBf16Format}) {
    for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      const TempDir model, in_expert, in_dense, sound;
      write_with(model, in_expert, format, expert + "wo.weight", 8 + 3, value);
      const Pack pack = open_pack(in_expert.path());
      check_dense_finite(pack);
      check_experts_finite(pack, 0, 5);
      check_has(
          error_of([&] { check_experts_finite(pack, 0, 100); }, "pack_invalid"),
          {"experts.sida", "decoder.1 expert 2: down: row 1, column 3", "expected a finite number", "found"});

      write_with(model, in_dense, format, "encoder.final_layer_norm.weight", 2, value);
      check_has(error_of([&] { check_dense_finite(open_pack(in_dense.path())); }, "pack_invalid"),
                {"dense.sida", "encoder.final_norm: row 2"});

      write_with(model, sound, format, "shared.weight", 0, 1.5f);
      check_dense_finite(open_pack(sound.path()));
      check_experts_finite(open_pack(sound.path()), 0, 6);
    }
  }
}

}  // namespace
}  // namespace sida
