#pragma once

#include <functional>

#include "runtime/stream.h"
#include "runtime/types.h"

namespace sida::emulation {

/// Gives `use` the stream of a handle (null: the default stream); fails if there is none. The streams that the project
/// makes do not take turns with the default stream.
cudaError_t with_stream(cudaStream_t handle, const std::function<void(CUstream_st&)>& use);

/// Waits for the work of all streams.
void wait_for_all_streams();

/// Queues work that the device does unless it has ended; it may begin late by up to SIDA_EMULATION_DELAY_US.
cudaError_t push_device_work(cudaStream_t handle, std::function<void()> work);

}  // namespace sida::emulation
