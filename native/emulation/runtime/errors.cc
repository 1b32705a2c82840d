#include "runtime/errors.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "runtime/api.h"

namespace sida::emulation {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Injection {
  uint64_t left = 0;  ///< operations until it fails; 0 is never
  cudaError_t error = cudaSuccess;
};

struct Errors {
  std::atomic<cudaError_t> sticky = cudaSuccess;
  std::mutex mutex;
  std::string failure;
  Injection injections[3];
};

// Streams may run until the process ends.
Errors& errors() {
  static auto& all = *new Errors();
  return all;
}

/// SIDA_EMULATION_FAULT_FILE: a kernel that finds this file takes it away and reads where it must not.
bool fault_file_found() {
  static const char* const file = std::getenv("SIDA_EMULATION_FAULT_FILE");
  return file != nullptr && std::remove(file) == 0;
}

}  // namespace

cudaError_t sticky_error() { return errors().sticky.load(std::memory_order_relaxed); }

void end_device(cudaError_t error, const std::string& why) {
  const std::lock_guard lock(errors().mutex);
  if (sticky_error() != cudaSuccess) return;
  errors().failure = why;
  errors().sticky.store(error, std::memory_order_relaxed);
}

cudaError_t injected(Operation operation) {
  if (operation == Operation::kLaunch && fault_file_found()) return cudaErrorIllegalAddress;
  const std::lock_guard lock(errors().mutex);
  Injection& injection = errors().injections[static_cast<size_t>(operation)];
  if (injection.left == 0 || --injection.left > 0) return cudaSuccess;
  return injection.error;
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void clear_errors() {
  const std::lock_guard lock(errors().mutex);
  errors().sticky.store(cudaSuccess, std::memory_order_relaxed);
  errors().failure.clear();
  for (Injection& injection : errors().injections) injection = {};
  last_error = cudaSuccess;
}

void inject(Operation operation, uint64_t nth, cudaError_t error) {
  const std::lock_guard lock(errors().mutex);
  errors().injections[static_cast<size_t>(operation)] = {nth, error};
}

std::string last_failure() {
  const std::lock_guard lock(errors().mutex);
  return errors().failure;
}

}  // namespace sida::emulation

using sida::emulation::sticky_error;

cudaError_t cudaPeekAtLastError() {
  return sticky_error() != cudaSuccess ? sticky_error() : sida::emulation::last_error;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  sida::emulation::last_error = cudaSuccess;
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
