#pragma once

#include <string>

#include "engine/batch.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// Throws invalid_request: `what` is wrong about a batch.
[[noreturn]] void refuse(const std::string& what);

/// Throws invalid_request where `batch` is malformed. Does not look at live sequences.
void check_batch(const Batch& batch, const ModelSpec& spec, const BatchLimits& limits);

}  // namespace sida
