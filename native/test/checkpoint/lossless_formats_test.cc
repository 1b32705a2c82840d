#include "checkpoint/lossless_formats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "support/repo_paths.h"
#include "support/tiny_model.h"

namespace sida {
namespace {

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
  const LosslessFormats narrow = formats({"norm", "mlp.gate.weight"});
  CHECK(narrow.experts == kBf16Format);
  CHECK(narrow.dense == kBf16Format);
  CHECK(formats({"experts.1.up_proj"}).experts == kF32Format);
  CHECK(formats({"experts.1.up_proj"}).dense == kBf16Format);
  CHECK(formats({"lm_head"}).experts == kBf16Format);
  CHECK(formats({"lm_head"}).dense == kF32Format);
}

}  // namespace
}  // namespace sida
