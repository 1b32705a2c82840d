#include "spec/families/qwen3_5_moe/qwen3_5_moe.h"
#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

std::string qwen3_5_moe_config(const GgufModel& model) {
  GgufConfig config(model, "qwen3_5_moe_text");
  set_qwen_delta(model, config);
  return config.text();
}

}  // namespace

constexpr GgufForm kQwen35MoeGguf{"qwen35moe", nullptr, qwen3_5_moe_config, qwen_delta_gguf_source};

}  // namespace sida
