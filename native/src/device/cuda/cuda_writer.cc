#include "device/cuda/cuda_writer.h"

#include "device/cuda/cuda_backend.h"

namespace sida {

CudaWriter::~CudaWriter() {
  // Copies out of the halves must have ended. A failed device makes no more copies.
  cudaStreamSynchronize(device_.copies());
}

void CudaWriter::begin(size_t bytes) {
  half_ = 1 - half_;
  used_ = 0;
  Half& half = halves_[half_];
  if (half.copied) cuda_check(cudaEventSynchronize(half.copied.get()), "cudaEventSynchronize");
  if (half.bytes >= bytes) return;
  half.memory.reset();
  half.bytes = 0;
  half.memory = make_cuda_host_array<std::byte>(bytes);
  half.bytes = bytes;
}

std::byte* CudaWriter::buffer_for(std::byte*, size_t bytes) {
  std::byte* buffer = halves_[half_].memory.get() + used_;
  used_ += bytes;
  return buffer;
}

void CudaWriter::send(std::byte* target, const std::byte* from, size_t bytes) {
  device_.copy_after_use(target);
  cuda_check(cudaMemcpyAsync(target, from, bytes, cudaMemcpyHostToDevice, device_.copies()), "cudaMemcpyAsync");
  Half& half = halves_[half_];
  if (from < half.memory.get() || from >= half.memory.get() + half.bytes) return;
  if (!half.copied) half.copied = make_cuda_event();
  cuda_check(cudaEventRecord(half.copied.get(), device_.copies()), "cudaEventRecord");
}

void CudaWriter::finish() {
  // All writers share one stream, so this event comes after the copies of the others too.
  cuda_check(cudaEventRecord(sent_.get(), device_.copies()), "cudaEventRecord");
  cuda_check(cudaEventSynchronize(sent_.get()), "cudaEventSynchronize");
}

}  // namespace sida
