#include "checkpoint/pack_formats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/error_checks.h"
#include "support/repo_paths.h"
#include "support/tiny_model.h"

namespace sida {
namespace {

using testing::check_has;
using testing::error_of;
using testing::TempDir;

TEST_CASE("lossless formats: bf16 where all matrices of the kind are bf16, whatever norms and routers are") {
  const std::string config = testing::tiny_olmoe_config();
  const auto formats = [&](const std::vector<std::string>& wide) {
    TempDir model;
    std::vector<testing::BuiltTensor> tensors = testing::tiny_tensors(config);
    for (testing::BuiltTensor& tensor : tensors) {
      const auto is = [&](const std::string& part) { return tensor.name.find(part) != std::string::npos; };
      if (std::any_of(wide.begin(), wide.end(), is)) continue;
      tensor.dtype = "BF16";
      tensor.data.resize(tensor.data.size() / 2);
    }
    testing::write_file(model.path() + "/config.json", config);
    testing::write_file(model.path() + "/model.safetensors", testing::build_safetensors(tensors));
    return lossless_formats(Checkpoint::open(model.path()));
  };
  const PackFormats narrow = formats({"norm", "mlp.gate.weight"});
  CHECK(narrow.all_experts == kBf16Format);
  CHECK(narrow.all_dense == kBf16Format);
  CHECK(formats({"experts.1.up_proj"}).all_experts == kF32Format);
  CHECK(formats({"experts.1.up_proj"}).all_dense == kBf16Format);
  CHECK(formats({"lm_head"}).all_experts == kBf16Format);
  CHECK(formats({"lm_head"}).all_dense == kF32Format);
}

TEST_CASE("pack formats: types that sida does not make are refused by name") {
  TempDir model;
  testing::write_file(model.path() + "/config.json", testing::tiny_olmoe_config());
  testing::write_file(model.path() + "/model.safetensors",
                      testing::build_safetensors(testing::tiny_tensors(testing::tiny_olmoe_config())));
  const Checkpoint checkpoint = Checkpoint::open(model.path());
  check_has(error_of([&] { chosen_formats(checkpoint, kQ4_KFormat, {}); }, "invalid_request"),
            {"experts: sida does not quantize to q4_k", "GGUF"});
  check_has(error_of([&] { chosen_formats(checkpoint, {}, kQ6_KFormat); }, "invalid_request"),
            {"dense: sida does not quantize to q6_k"});
  CHECK(chosen_formats(checkpoint, kQ8_0Format, {}).experts[0].up == kQ8_0Format);
}

}  // namespace
}  // namespace sida
