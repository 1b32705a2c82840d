#pragma once

#include <map>
#include <mutex>
#include <string>

#include "device/backend.h"
#include "device/cuda/cuda_handles.h"

namespace sida {

/// What a machine says of its first CUDA device.
struct CudaDevice {
  int count = 0;  ///< of devices in all
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;
};

/// The first CUDA device (CUDA_VISIBLE_DEVICES chooses another). Throws device_unavailable, with the reason,
/// where there is none that this build's kernels run on.
CudaDevice find_cuda_device();

/// Memory of a GPU. What is computed goes through one stream, what is copied to expert slots through another;
/// events make a layer wait for its own experts alone, and a copy for the work that still reads the slot.
/// Functions may be called from any thread.
class CudaBackend final : public Backend {
 public:
  CudaBackend();
  ~CudaBackend() override;

  const char* name() const override { return "cuda"; }
  std::byte* allocate(size_t bytes) override;
  void deallocate(std::byte* memory, size_t bytes) override;
  void clear(std::byte* memory, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  std::unique_ptr<DeviceWriter> writer() override;
  size_t copies_in_flight() const override { return 2; }
  void filled(std::byte* slot) override;
  std::unique_ptr<Backend> host_memory() override;

  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t copies() const { return copies_.get(); }

  /// What is computed from now on waits until `slot` is filled.
  void compute_after_fill(const std::byte* slot);
  /// What has been given to compute() so far reads `slot`: later copies into it wait for that.
  void used(const std::byte* slot);
  /// Copies that are given to copies() from now on wait for the work that reads `slot`.
  void copy_after_use(const std::byte* slot);

 private:
  struct SlotEvents {
    size_t bytes = 0;
    CudaEvent filled;  ///< null: never
    CudaEvent used;
  };

  /// The allocation that `address` lies in. With the lock held.
  SlotEvents& slot_at(const std::byte* address);

  CudaStream compute_;
  CudaStream copies_;
  std::mutex mutex_;
  std::map<const std::byte*, SlotEvents> slots_;
};

}  // namespace sida
