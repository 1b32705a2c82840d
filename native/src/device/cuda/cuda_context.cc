#include "device/cuda/cuda_context.h"

#include <algorithm>
#include <cstdlib>

#include "device/allocation_bytes.h"
#include "device/cuda/cuda_handles.h"
#include "device/cuda/driver_figures.h"

namespace sida {
namespace {

/// No context is smaller, so a smaller figure shows that another process freed memory meanwhile.
constexpr uint64_t kLeastBytes = uint64_t{16} << 20;
/// Where only the sum of all processes is known, a larger difference is theirs.
constexpr uint64_t kMostOfAll = 2 * kUsualContextBytes;

CudaContext measure() {
  const auto before = driver_figures();
  cuda_check(cudaSetDevice(0), "cudaSetDevice");
  cuda_check(cudaFree(nullptr), "cudaFree");  // makes the context where cudaSetDevice does not, before CUDA 12
  {
    // As an engine has them; the first two make the driver allocate their channels.
    const CudaStream compute = make_cuda_stream(), copies = make_cuda_stream();
    cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  const auto after = driver_figures();
  if (!before || !after) return {kUsualContextBytes, false};
  // Other processes change the sum of all, so the figure of this process alone comes first.
  const bool own = after->own_bytes > before->own_bytes;
  const uint64_t begin = own ? before->own_bytes : before->used_bytes;
  const uint64_t end = own ? after->own_bytes : after->used_bytes;
  const uint64_t bytes = end - std::min(begin, end);
  if (bytes < kLeastBytes || (!own && bytes > kMostOfAll)) return {kUsualContextBytes, false};
  return {bytes, true};
}

}  // namespace

void load_kernels_with_context() {
  // The default loads a kernel when it is first launched, and takes memory then, which the budget has not counted.
  static const bool set = setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0;
  static_cast<void>(set);
}

const CudaContext& cuda_context() {
  static const CudaContext context = measure();
  return context;
}

}  // namespace sida
