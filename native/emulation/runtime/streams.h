#pragma once

#include <functional>

#include "runtime/stream.h"
#include "runtime/types.h"

namespace sida::emulation {

cudaError_t open_stream(cudaStream_t* handle, unsigned flags);
/// Its work is done all the same.
cudaError_t close_stream(cudaStream_t handle);

/// Gives `use` the stream of a handle (null: the default stream), with what other streams it must take turns
/// with; fails if there is none.
cudaError_t with_stream(cudaStream_t handle, const std::function<void(CUstream_st&)>& use);

/// Waits for the work of all streams.
void wait_for_all_streams();

/// Queues work that the device does unless it has ended; it may begin late by the delay that tests set.
cudaError_t push_device_work(cudaStream_t handle, std::function<void()> work);

}  // namespace sida::emulation
