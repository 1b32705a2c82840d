#pragma once

#include <array>

#include "device/backend.h"
#include "device/cuda/cuda_handles.h"

namespace sida {

class CudaBackend;

/// Reads go to page-locked memory, two halves of it in turns, and on from there while the other half is
/// filled.
class CudaWriter final : public DeviceWriter {
 public:
  explicit CudaWriter(CudaBackend& device) : device_(device), sent_(make_cuda_event()) {}
  ~CudaWriter() override;

  void begin(size_t bytes) override;
  std::byte* room(std::byte* target, size_t bytes) override;
  void send(std::byte* target, const std::byte* from, size_t bytes) override;
  void finish() override;

 private:
  struct Half {
    CudaHostArray<std::byte> memory;
    size_t bytes = 0;
    CudaEvent left;  ///< after the last copy out of it
  };

  CudaBackend& device_;
  std::array<Half, 2> halves_;
  size_t half_ = 0;
  size_t used_ = 0;  ///< bytes of the half given out
  CudaEvent sent_;   ///< of finish()
};

}  // namespace sida
