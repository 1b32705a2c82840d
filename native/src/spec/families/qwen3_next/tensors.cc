#include "spec/families/decoder_tensors.h"
#include "spec/families/qwen3_next/qwen3_next.h"
#include "spec/families/qwen_delta.h"

namespace sida {

constexpr Family kQwen3Next{"qwen3_next", read_qwen3_next_config, qwen_delta_source, owns_decoder_tensor,
                            &kQwen3NextGguf};

}  // namespace sida
