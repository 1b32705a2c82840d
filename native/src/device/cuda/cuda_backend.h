#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "device/backend.h"
#include "device/cuda/cuda_context.h"
#include "device/cuda/cuda_handles.h"
#include "device/poison.h"

namespace sida {

/// The first CUDA device of a machine.
struct CudaDevice {
  int count = 0;  ///< of devices in all
  std::string name;
  int major = 0;  ///< compute capability
  int minor = 0;
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  ///< with what this process's context takes
  CudaContext context;
  std::string driver;  ///< its version; empty where the driver tells no figures
};

/// The first CUDA device (CUDA_VISIBLE_DEVICES chooses another). Throws device_unavailable, with the reason,
/// where there is none that this build's kernels run on.
CudaDevice find_cuda_device();

/// Bytes per second of the fastest copy of 32 MiB from page-locked memory to the device within `time`. Blocks for that
/// time.
double cuda_copy_rate(std::chrono::duration<double> time);

/// Memory of a GPU. Kernels run in one stream, copies to expert slots in another. Events make a layer wait only for its
/// own experts, and a copy for the kernels that still read the slot. Functions may be called from any thread.
class CudaBackend final : public Backend {
 public:
  CudaBackend();
  ~CudaBackend() override;

  const char* name() const override { return "cuda"; }
  uint64_t taken(uint64_t bytes) const override { return gpu_bytes(bytes); }
  size_t page_bytes() const override { return kGpuPage; }
  std::byte* allocate(size_t bytes, Touch touch) override;
  void deallocate(std::byte* memory, size_t bytes) override;
  void clear(std::byte* memory, size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, size_t bytes) override;
  std::unique_ptr<DeviceWriter> writer() override;
  size_t copies_in_flight() const override { return 2; }
  void emptied(std::byte* slot, size_t bytes) override;
  void filled(std::byte* slot) override;
  std::unique_ptr<Backend> host_memory() override;

  cudaStream_t compute() const { return compute_.get(); }
  cudaStream_t copies() const { return copies_.get(); }

  /// Later work in compute() waits until `slot` is filled.
  void compute_after_fill(const std::byte* slot);
  /// Later work in compute() waits for the copies in copies() so far.
  void compute_after_copies();
  /// Marks the work in compute() so far; returns the mark.
  uint64_t mark();
  /// Records that the work up to `mark` reads `slot`; later copies into the slot wait for that work.
  void used(const std::byte* slot, uint64_t mark);
  /// Later copies in copies() wait for the work that reads `slot`.
  void copy_after_use(const std::byte* slot);

 private:
  struct SlotEvents {
    size_t bytes = 0;
    CudaEvent filled;     ///< null: never
    bool awaited = true;  ///< compute() waits for `filled` already
    uint64_t used = 0;    ///< mark of the last work that reads it; 0: none
  };
  /// Marks that have an event of their own; the oldest of them stands for all before it.
  static constexpr size_t kMarks = 256;

  /// The allocation that contains `address`. The caller holds the lock.
  SlotEvents& slot_at(const std::byte* address);

  const bool poisons_ = poisons_slots();
  CudaStream compute_;
  CudaStream copies_;
  CudaEvent copied_;  ///< of compute_after_copies()
  std::mutex mutex_;
  std::map<const std::byte*, SlotEvents> slots_;
  std::array<CudaEvent, kMarks> marks_;  ///< of mark m at m % kMarks
  uint64_t last_mark_ = 0;
};

}  // namespace sida
