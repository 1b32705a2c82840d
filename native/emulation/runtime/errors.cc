#include "runtime/errors.h"

#include <atomic>
#include <mutex>

#include "emulation_control.h"
#include "runtime/api.h"

namespace sida::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Errors {
  std::atomic<cudaError_t> sticky = cudaSuccess;
  std::mutex mutex;
  std::string failure;
};

// Streams may run until the process ends.
Errors& errors() {
  static auto& all = *new Errors();
  return all;
}

}  // namespace

cudaError_t sticky_error() { return errors().sticky.load(std::memory_order_relaxed); }

void end_device(cudaError_t error, const std::string& why) {
  const std::lock_guard lock(errors().mutex);
  if (sticky_error() != cudaSuccess) return;
  errors().failure = why;
  errors().sticky.store(error, std::memory_order_relaxed);
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void clear_errors() {
  const std::lock_guard lock(errors().mutex);
  errors().sticky.store(cudaSuccess, std::memory_order_relaxed);
  errors().failure.clear();
  last_error = cudaSuccess;
}

std::string last_failure() {
  const std::lock_guard lock(errors().mutex);
  return errors().failure;
}

}  // namespace sida::emulation

cudaError_t cudaGetLastError() {
  using namespace sida::emulation;
  const cudaError_t error = sticky_error() != cudaSuccess ? sticky_error() : last_error;
  last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define SIDA_CUDA_ERROR(name, value, text) \
  case name:                               \
    return #name;
#include "runtime/error_list.inc"
#undef SIDA_CUDA_ERROR
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define SIDA_CUDA_ERROR(name, value, text) \
  case name:                               \
    return text;
#include "runtime/error_list.inc"
#undef SIDA_CUDA_ERROR
  }
  return "unrecognized error code";
}
