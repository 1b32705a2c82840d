#pragma once

#include "checkpoint/pack.h"
#include "device/device_memory.h"

namespace sida {

/// Reads the tensors of `layout`, all or some of the pack's dense file in its order, onto the device. Throws io_error,
/// and pack_invalid where the file has another size.
DeviceBuffer load_dense(DeviceMemory& memory, const Pack& pack, const DenseLayout& layout);

}  // namespace sida
