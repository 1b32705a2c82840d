#pragma once

#include "spec/families/gguf_config.h"

namespace sida {

/// What DeepSeek-V2 and V3, which share an architecture of llama.cpp, have in common in a config.
void set_latent_config(const GgufModel& model, GgufConfig& config);

/// Whether the router's scores are sigmoids.
bool has_sigmoid_router(const GgufModel& model);

/// n_routed_experts' groups and what else routers of such families have.
void set_router_config(const GgufModel& model, GgufConfig& config);

}  // namespace sida
