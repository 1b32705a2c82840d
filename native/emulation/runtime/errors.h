#pragma once

#include <string>

#include "runtime/types.h"

namespace sida::emulation {

/// The error that ended the device, or cudaSuccess. Nothing runs after it.
cudaError_t sticky_error();
/// Ends the device. The first error stays.
void end_device(cudaError_t error, const std::string& why);
/// Keeps a call's error for cudaGetLastError() on this thread, and returns it.
cudaError_t keep(cudaError_t error);
void clear_errors();

/// One call of the runtime. A call that gives something back does so on an ended device too, but still fails.
enum class On { kLivingDevice, kAnyDevice };
template <class Body>
cudaError_t call(Body&& body, On on = On::kLivingDevice) {
  if (sticky_error() != cudaSuccess && on == On::kLivingDevice) return keep(sticky_error());
  const cudaError_t error = body();
  return keep(sticky_error() != cudaSuccess ? sticky_error() : error);
}

}  // namespace sida::emulation
