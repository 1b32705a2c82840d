#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/switch_config.h"

namespace sida {

// Visits every tensor of the stacks of a Switch model, by its Hugging Face name: all but embeddings and head.
void for_each_switch_tensor(
    const SwitchConfig& config,
    const std::function<void(const std::string& name, const std::vector<uint64_t>& shape)>& visit);

}  // namespace sida
