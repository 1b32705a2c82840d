#include "model/cuda/pass_uploads.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "model/kv_cache.h"
#include "ops/cuda/attention.h"

namespace sida {
namespace {

constexpr size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

size_t PassUploads::bytes(const SwitchConfig& config, const BatchLimits& limits) {
  const size_t tokens = limits.max_batch_tokens, choices = tokens * limits.max_routing_k;
  size_t encoder = 0, decoder = 0;
  for (int i = 0; i < config.num_layers; ++i) encoder += config.encoder_sparse(i);
  for (int i = 0; i < config.num_decoder_layers; ++i) decoder += config.decoder_sparse(i);
  // Ids and logit rows; sequences and tiles of self- and cross-attention; a page of the cache has one owner.
  const size_t once = 2 * aligned(tokens * sizeof(int32_t)) +
                      2 * aligned(tokens * sizeof(cuda::PagedSequence)) +
                      2 * aligned(tokens * sizeof(cuda::RowTile)) +
                      2 * aligned(KvCache::pages_for(limits.kv_tokens) * sizeof(uint32_t));
  // Order, positions and alpha of a layer's choices, in one.
  return once + std::max(encoder, decoder) * 3 * aligned(choices * sizeof(uint32_t));
}

PassUploads::PassUploads(std::byte* device, size_t bytes, cudaStream_t stream)
    : device_(device), bytes_(bytes), stream_(stream), host_(make_cuda_host_array<std::byte>(bytes)) {}

const std::byte* PassUploads::put_bytes(const void* values, size_t bytes) {
  const size_t begin = used_;
  if (begin + bytes > bytes_) {
    throw Error("internal", "a pass uploads more than " + std::to_string(bytes_) + " bytes. This is a bug.");
  }
  used_ += aligned(bytes);
  std::memcpy(host_.get() + begin, values, bytes);
  cuda_check(cudaMemcpyAsync(device_ + begin, host_.get() + begin, bytes, cudaMemcpyHostToDevice, stream_),
             "cudaMemcpyAsync");
  return device_ + begin;
}

}  // namespace sida
