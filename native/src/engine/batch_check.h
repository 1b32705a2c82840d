#pragma once

#include "engine/batch.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// Throws invalid_request where `batch` is malformed. Does not look at live sequences.
void check_batch(const Batch& batch, const ModelSpec& spec, const BatchLimits& limits);

}  // namespace sida
