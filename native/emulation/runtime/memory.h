#pragma once

#include <cstddef>

#include "runtime/types.h"

namespace sida::emulation {

/// Of the device.
inline constexpr size_t kTotalMemory = size_t{4} << 30;

enum class Place { kPageable, kPinned, kDevice };

/// Where [address, address + bytes) lies. kPageable too if only a part of it is known.
Place place_of(const void* address, size_t bytes);

/// Memory of its own, in pages of its place, with all bits set: a NaN in every type of float.
cudaError_t allocate(Place place, size_t bytes, void** address);
cudaError_t release_memory(Place place, void* address);

}  // namespace sida::emulation
