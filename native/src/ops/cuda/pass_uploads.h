#pragma once

#include <span>

#include "device/cuda/cuda_handles.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// The small arrays that a pass brings to the device: token ids, page tables, rotary positions, choices. They are
/// copied through page-locked memory in stream order, several by one send(), and stay until the next start().
class PassUploads {
 public:
  /// The most that a pass within `limits` can put.
  static size_t bytes(const ModelSpec& spec, const BatchLimits& limits);

  PassUploads(std::byte* device, size_t bytes, cudaStream_t stream);

  /// Discards everything that was put. No work of the stream may still read it.
  void start() { rewind(0); }
  /// Discards what was put since used() was `used`, on the same condition.
  void rewind(size_t used) { used_ = sent_ = used; }
  size_t used() const { return used_; }

  /// Where the device has a copy of `values` behind the next send(). A launch that reads it must come later.
  template <class T>
  const T* put(std::span<const T> values) {
    return reinterpret_cast<const T*>(put_bytes(values.data(), values.size_bytes()));
  }
  /// Copies what was put since the last send().
  void send();

 private:
  const std::byte* put_bytes(const void* values, size_t bytes);

  std::byte* device_;
  size_t bytes_;
  cudaStream_t stream_;
  CudaHostArray<std::byte> host_;
  size_t used_ = 0, sent_ = 0;
};

}  // namespace sida
