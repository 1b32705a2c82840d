#pragma once

#include <span>

#include "device/cuda/cuda_handles.h"
#include "spec/batch_limits.h"
#include "spec/spec.h"

namespace sida {

/// Most entries of page tables of `sequences` sequences in a cache of `pages` pages: each sequence writes into a page
/// of its own and may share all others.
constexpr size_t most_page_entries(size_t sequences, size_t pages) {
  return sequences > pages ? sequences : sequences * (pages - sequences + 1);
}

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

  /// Where the device has a copy of `values` behind the next send(). It takes the room of `reserved` values where they
  /// are more, so that what follows has a place that does not depend on how many there are. A launch that reads it must
  /// come later.
  template <class T>
  const T* put(std::span<const T> values, size_t reserved = 0) {
    return reinterpret_cast<const T*>(put_bytes(values.data(), values.size_bytes(), reserved * sizeof(T)));
  }
  /// Copies what was put since the last send().
  void send();

 private:
  const std::byte* put_bytes(const void* values, size_t bytes, size_t reserved);

  std::byte* device_;
  size_t bytes_;
  cudaStream_t stream_;
  CudaHostArray<std::byte> host_;
  size_t used_ = 0, sent_ = 0;
};

}  // namespace sida
