#pragma once

#include <cstddef>

namespace sida {

/// Calls of operator new in the whole test program so far.
size_t allocations();

}  // namespace sida
