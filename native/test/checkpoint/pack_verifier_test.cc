// A comparison of a pack with its checkpoint finds damaged weights.
#include "checkpoint/pack_verifier.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "ops/panel_layout.h"
#include "support/error_checks.h"
#include "support/pack_files.h"
#include "support/tiny_model.h"

namespace sida {
namespace {

using testing::check_has;
using testing::error_of;
using testing::kInt4Format;
using testing::kInt8Format;
using testing::read_at;
using testing::small_checkpoint;
using testing::TempDir;
using testing::write_at;

class Verified {
 public:
  Verified(WeightFormat experts, WeightFormat dense) {
    testing::write_pack(small_checkpoint(), dir_.path(), experts, dense);
    pack_ = open_pack(dir_.path());
  }
  const Pack& pack() const { return pack_; }
  PackVerifier::Report check() const {
    PackVerifier verifier(small_checkpoint(), dir_.path());
    verifier.check_dense(0, pack_.dense.tensors.size());
    verifier.check_experts(0, pack_.experts.experts());
    return verifier.report();
  }

 private:
  TempDir dir_;
  Pack pack_;
};

TEST_CASE("pack verifier: a sound pack is within half a step of its checkpoint, and close to it") {
  CHECK(Verified(kF32Format, kF32Format).check().experts.largest == 0);
  for (const auto& [experts, dense] : std::vector<std::pair<WeightFormat, WeightFormat>>{
           {kBf16Format, kBf16Format},
           {kInt8Format, kInt8Format},
           {kInt4Format, kF32Format},
           {kQ8_0Format, kQ4_0Format}}) {
    const PackVerifier::Report report = Verified(experts, dense).check();
    CHECK(report.experts.bound == error_bound(experts));
    CHECK(report.experts.largest <= error_bound(experts));
    CHECK(report.experts.largest > 0.9 * error_bound(experts));
    CHECK(report.dense.largest <= error_bound(dense));
    CHECK((report.dense.largest == 0) == (dense == kF32Format));
  }
}

TEST_CASE("pack verifier: a flipped scale, sum or code is found and named with error and bound") {
  const auto check_found = [](const Verified& verified, const std::vector<std::string>& parts) {
    check_has(error_of([&] { verified.check(); }, "pack_invalid"), parts);
  };
  {
    const Verified verified(kInt8Format, kF32Format);
    const ExpertLayout& layout = verified.pack().experts;
    const ExpertMatrix& down = layout.layers[1].matrices.back();
    // Expert 1 of the second MoE layer; down; the scale of column 33: the second panel's second.
    const uint64_t panel = (layout.shape.experts_per_layer + 1) * layout.slot_bytes + down.offset +
                           panel_stride(down.k, kInt8Format);
    const uint64_t scale = panel + code_bytes(down.k, WeightType::kInt8) + 4;
    const std::string path = verified.pack().expert_path(0);
    const auto right = read_at<float>(path, scale);
    const std::string expert = verified.pack().spec.moe_layers()[1] + " expert 1: down";
    write_at(path, scale, std::bit_cast<float>(std::bit_cast<uint32_t>(right) ^ 1u << 22));
    check_found(verified, {"experts.sida", expert, "row 33", "at most 0.394 %", "convert the model again"});
    write_at(path, scale, std::nanf(""));
    check_found(verified, {expert, "row 33", "found inf"});
    write_at(path, scale, right);
    CHECK_NOTHROW(verified.check());
    const uint64_t sum = scale + kPanelColumns * 4;
    write_at(path, sum, read_at<int32_t>(path, sum) + 1);
    check_found(verified, {expert, "rows from 32", "the sums of their codes"});
  }
  {
    const Verified verified(kInt4Format, kF32Format);
    const std::string path = verified.pack().expert_path(0);
    const uint64_t scale = code_bytes(64, WeightType::kInt4);
    write_at(path, scale, static_cast<uint16_t>(read_at<uint16_t>(path, scale) ^ 1u << 6));
    check_found(verified, {"expert 0: up", "row 0", "at most 7.2 %"});
  }
  {
    const Verified verified(kInt4Format, kInt8Format);
    const DenseTensor& tensor = verified.pack().dense.tensors[0];
    const std::string path = verified.pack().dense_path();
    write_at(path, tensor.offset, static_cast<int8_t>(read_at<int8_t>(path, tensor.offset) ^ 0x40));
    check_found(verified, {"dense.sida", tensor.name, "row 0"});
  }
  {
    const Verified verified(kInt4Format, kInt8Format);
    for (const DenseTensor& tensor : verified.pack().dense.tensors) {
      if (tensor.panels()) continue;
      write_at(verified.pack().dense_path(), tensor.offset, 1234.5f);
      check_found(verified, {"dense.sida", tensor.name, "the checkpoint's numbers"});
      break;
    }
  }
}

TEST_CASE("pack verifier: a checkpoint of another family is refused") {
  TempDir model, pack;
  testing::write_file(model.path() + "/config.json", testing::tiny_olmoe_config());
  testing::write_file(model.path() + "/model.safetensors",
                      testing::build_safetensors(testing::tiny_tensors(testing::tiny_olmoe_config())));
  testing::write_pack(small_checkpoint(), pack.path(), kInt8Format);
  check_has(error_of([&] { PackVerifier(model.path(), pack.path()); }, "pack_invalid"),
            {"model_type: expected olmoe, found switch_transformers"});
}

}  // namespace
}  // namespace sida
