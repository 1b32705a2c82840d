#pragma once

#include <cstddef>

namespace sida {

/// Memory of this thread for a panel in the form that products take, 64-byte aligned. The next call may move it.
std::byte* decoded_panel(size_t bytes);

}  // namespace sida
