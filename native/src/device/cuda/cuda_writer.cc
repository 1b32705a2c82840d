#include "device/cuda/cuda_writer.h"

#include "device/cuda/cuda_backend.h"

namespace sida {

CudaWriter::~CudaWriter() {
  // Copies out of the halves must have ended; a device that has failed makes none.
  cudaStreamSynchronize(device_.copies());
}

void CudaWriter::begin(size_t bytes) {
  half_ = 1 - half_;
  used_ = 0;
  Half& half = halves_[half_];
  if (half.left) cuda_check(cudaEventSynchronize(half.left.get()), "cudaEventSynchronize");
  if (half.bytes >= bytes) return;
  half.memory.reset();
  half.bytes = 0;
  half.memory = make_cuda_host_array<std::byte>(bytes);
  half.bytes = bytes;
}

std::byte* CudaWriter::room(std::byte*, size_t bytes) {
  std::byte* room = halves_[half_].memory.get() + used_;
  used_ += bytes;
  return room;
}

void CudaWriter::send(std::byte* target, const std::byte* from, size_t bytes) {
  device_.copy_after_use(target);
  cuda_check(cudaMemcpyAsync(target, from, bytes, cudaMemcpyHostToDevice, device_.copies()),
             "cudaMemcpyAsync");
  Half& half = halves_[half_];
  CudaEvent& event = from >= half.memory.get() && from < half.memory.get() + half.bytes ? half.left : sent_;
  if (!event) event = make_cuda_event();
  cuda_check(cudaEventRecord(event.get(), device_.copies()), "cudaEventRecord");
}

void CudaWriter::finish() {
  for (const CudaEvent* event : {&halves_[0].left, &halves_[1].left, &sent_}) {
    if (*event) cuda_check(cudaEventSynchronize(event->get()), "cudaEventSynchronize");
  }
}

}  // namespace sida
