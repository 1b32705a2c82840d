#pragma once

#include <array>

#include "device/backend.h"
#include "device/cuda/cuda_handles.h"

namespace sida {

class CudaBackend;

/// Stages bytes in two page-locked buffers in turn: one is copied to the device while the caller fills the other.
class CudaWriter final : public DeviceWriter {
 public:
  explicit CudaWriter(CudaBackend& device) : device_(device), sent_(make_cuda_event()) {}
  ~CudaWriter() override;

  void begin(size_t bytes) override;
  std::byte* buffer_for(std::byte* target, size_t bytes) override;
  void send(std::byte* target, const std::byte* from, size_t bytes) override;
  void finish() override;

 private:
  struct Half {
    CudaHostArray<std::byte> memory;
    size_t bytes = 0;
    CudaEvent copied;  ///< after the last copy out of it
  };

  CudaBackend& device_;
  std::array<Half, 2> halves_;
  size_t half_ = 0;
  size_t used_ = 0;  ///< bytes of the current half given out by buffer_for()
  CudaEvent sent_;   ///< recorded and awaited by finish()
};

}  // namespace sida
