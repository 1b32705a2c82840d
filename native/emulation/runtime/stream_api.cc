#include <memory>

#include "runtime/api.h"
#include "runtime/errors.h"
#include "runtime/streams.h"

using sida::emulation::call;
using sida::emulation::Marker;
using sida::emulation::On;
using sida::emulation::with_stream;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&] { return sida::emulation::open_stream(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&] { return sida::emulation::close_stream(stream); }, On::kAnyDevice);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return call([&] {
    std::shared_ptr<Marker> marker;
    const cudaError_t error = with_stream(handle, [&](CUstream_st& stream) { marker = stream.mark(); });
    if (error == cudaSuccess) marker->wait();
    return error;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return call([&] {
    bool idle = false;
    const cudaError_t error = with_stream(handle, [&](CUstream_st& stream) { idle = stream.idle(); });
    return error == cudaSuccess && !idle ? cudaErrorNotReady : error;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call([] {
    sida::emulation::wait_for_all_streams();
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return call([&] {
    if (function == nullptr) return cudaErrorInvalidValue;
    return with_stream(handle, [&](CUstream_st& stream) {
      stream.push([=] {
        if (sida::emulation::sticky_error() == cudaSuccess) function(argument);
      });
    });
  });
}
