#include <array>
#include <string>

#include "spec/config_reader.h"
#include "spec/families/deepseek_v2/deepseek_v2.h"
#include "spec/families/deepseek_v3/deepseek_v3.h"
#include "spec/families/family.h"
#include "spec/families/gemma4/gemma4.h"
#include "spec/families/gguf_model.h"
#include "spec/families/glm4_moe/glm4_moe.h"
#include "spec/families/glm4_moe_lite/glm4_moe_lite.h"
#include "spec/families/gpt_oss/gpt_oss.h"
#include "spec/families/mixtral/mixtral.h"
#include "spec/families/nllb_moe/nllb_moe.h"
#include "spec/families/nomic_bert/nomic_bert.h"
#include "spec/families/olmoe/olmoe.h"
#include "spec/families/qwen2_moe/qwen2_moe.h"
#include "spec/families/qwen3_5_moe/qwen3_5_moe.h"
#include "spec/families/qwen3_moe/qwen3_moe.h"
#include "spec/families/qwen3_next/qwen3_next.h"
#include "spec/families/switch_transformers/switch_transformers.h"

namespace sida {
namespace {

constexpr std::array<const Family*, 17> kFamilies{
    &kSwitchTransformers, &kOlmoe,         &kMixtral,     &kQwen2Moe, &kQwen3Moe,   &kGptOss,  &kDeepseekV2,
    &kDeepseekV3,         &kGlm4Moe,       &kGlm4MoeLite, &kGemma4,   &kGemma4Text, &kNllbMoe, &kQwen3Next,
    &kQwen35Moe,          &kQwen35MoeText, &kNomicBert};

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

const Family& family_of(const GgufModel& model) {
  std::string known;
  for (const Family* family : kFamilies) {
    if (family->gguf == nullptr) continue;
    const std::string architecture = family->gguf->architecture;
    const bool same = model.architecture() == architecture;
    if (same && (family->gguf->matches == nullptr || family->gguf->matches(model))) return *family;
    const std::string quoted = "\"" + architecture + "\"";
    if (!known.ends_with(quoted)) known += (known.empty() ? "" : " or ") + quoted;
  }
  throw model.fault("general.architecture", known, "\"" + escape_text(model.architecture()) + "\"",
                    "only models of these architectures are supported");
}

}  // namespace sida
