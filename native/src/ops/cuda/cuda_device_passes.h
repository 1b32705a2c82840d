#pragma once

#include "ops/cuda/find_experts.h"
#include "ops/cuda/pass_graphs.h"
#include "ops/device_passes.h"
#include "spec/spec.h"

namespace sida {

class CudaOps;

/// Passes of CudaOps without the host.
class CudaDevicePasses final : public DevicePasses {
 public:
  CudaDevicePasses(CudaOps& ops, const ModelSpec& spec);

  bool runs(size_t stack, size_t tokens) const override;
  SlotTable& table() override { return table_; }
  void run(FunctionRef<void()> layers) override;
  void find_experts(const DeviceMoeLayer& layer) override;
  void experts(const DeviceMoeLayer& layer) override;
  const LayerLog& log(size_t turn) const override { return logs_[turn]; }

 private:
  void upload_table();
  /// Copies the prefetches that find_experts() has listed in a stream of their own.
  void begin_prefetches(size_t bytes);
  /// Later work of the pass waits for them.
  void end_prefetches();
  PassShape shape() const;
  uint32_t products_of(const DeviceMoeLayer& layer) const;

  CudaOps& ops_;
  const ModelSpec& spec_;
  size_t experts_;
  // In page-locked memory:
  CudaHostArray<std::byte> host_table_;
  CudaHostArray<LayerLog> logs_;  ///< by turn
  cuda::TableHead* head_;
  cuda::DeviceTable on_device_;
  SlotTable table_;
  CudaStream prefetches_;
  CudaEvent listed_, prefetched_;
  PassGraphs graphs_;
};

}  // namespace sida
