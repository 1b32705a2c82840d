#pragma once

#include <functional>
#include <optional>

#include "machine/block.h"

namespace sida::emulation {

/// Runs all blocks of a grid; blocks of this and of other grids run at the same time. Returns why one failed,
/// if so.
std::optional<Failure> run_grid(const std::function<void()>& kernel, const GridShape& shape);

}  // namespace sida::emulation
