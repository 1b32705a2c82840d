#include "spec/families/qwen3_next/qwen3_next.h"
#include "spec/families/qwen_delta.h"

namespace sida {
namespace {

std::string qwen3_next_config(const GgufModel& model) {
  GgufConfig config(model, "qwen3_next");
  set_qwen_delta(model, config);
  return config.text();
}

}  // namespace

constexpr GgufForm kQwen3NextGguf{"qwen3next", nullptr, qwen3_next_config, qwen_delta_gguf_source};

}  // namespace sida
