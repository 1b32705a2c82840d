#include <array>
#include <string>

#include "model/config_reader.h"
#include "model/families/family.h"
#include "model/families/olmoe/olmoe.h"
#include "model/families/switch_transformers/switch_transformers.h"

namespace sida {
namespace {

constexpr std::array<const Family*, 2> kFamilies{&kSwitchTransformers, &kOlmoe};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family& family_of(const ConfigReader& config) {
  const auto found = config.field("model_type");
  const auto name = found ? found->try_string() : std::nullopt;
  std::string known;
  for (const Family* family : kFamilies) {
    if (name == family->model_type) return *family;
    known += (known.empty() ? "\"" : " or \"") + std::string(family->model_type) + "\"";
  }
  throw config.fault("model_type", known, found ? found->describe() : "none",
                     "only checkpoints of these families are supported");
}

}  // namespace sida
