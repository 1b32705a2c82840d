#include "ops/cuda/pass_uploads.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"
#include "kv/kv_layout.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/cuda_workspace.h"

namespace sida {
namespace {

constexpr size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

/// Most entries of a pass's page tables. Each sequence writes into a page of its own and may share all others, so s
/// sequences have at most s · (pages − s + 1) entries.
size_t max_page_entries(size_t tokens, size_t pages) {
  const size_t sequences = std::min(tokens, (pages + 1) / 2);
  return sequences * (pages - sequences + 1);
}

}  // namespace

size_t PassUploads::bytes(const ModelSpec& spec, const BatchLimits& limits) {
  const size_t tokens = limits.max_batch_tokens, choices = tokens * max_choices(spec, limits);
  const KvLayout cache(KvShape::of(spec, limits.kv), KvRoom(limits));
  size_t moe_layers = 0, rotary = 0, frequencies = 0;  // rotary: bytes
  for (const StackSpec& stack : spec.stacks) {
    moe_layers = std::max(moe_layers, stack.moe_layers());
    size_t tables = 0;
    for (size_t i = 0; i < stack.ropes(); ++i) tables += aligned(tokens * stack.rope(i).width() * sizeof(float));
    rotary = std::max(rotary, tables);
    if (const auto* sinusoids = std::get_if<Sinusoids>(&stack.positions)) {
      frequencies = std::max(frequencies, sinusoids->frequencies.size());
    }
  }
  // Token ids; rows of logits; sequences of self-attention, in each group of layers, and of cross-attention, which
  // share their tiles; the pages of all, of which parents' are distinct; cosines and sines; positions that are added,
  // and their frequencies.
  size_t once = aligned(tokens * sizeof(int32_t)) + aligned(kMaxLogitRows * sizeof(int32_t)) +
                (cache.groups.size() + 1) * aligned(tokens * sizeof(cuda::PagedSequence)) +
                aligned(tokens * sizeof(cuda::RowTile)) + aligned(cache.pages * sizeof(uint32_t)) + rotary +
                (frequencies == 0 ? 0 : aligned(tokens * sizeof(uint32_t))) + aligned(frequencies * sizeof(float));
  for (const KvGroup& group : cache.groups) once += aligned(max_page_entries(tokens, group.pages) * sizeof(uint32_t));
  // Order, positions and alpha of a layer's choices, in one upload.
  return once + moe_layers * 3 * aligned(choices * sizeof(uint32_t));
}

PassUploads::PassUploads(std::byte* device, size_t bytes, cudaStream_t stream)
    : device_(device), bytes_(bytes), stream_(stream), host_(make_cuda_host_array<std::byte>(bytes)) {}

const std::byte* PassUploads::put_bytes(const void* values, size_t bytes) {
  const size_t begin = used_;
  if (begin + bytes > bytes_) {
    throw Error("internal", "a pass uploads more than " + std::to_string(bytes_) + " bytes. This is a bug.");
  }
  if (bytes == 0) return device_ + begin;
  used_ += aligned(bytes);
  std::memcpy(host_.get() + begin, values, bytes);
  return device_ + begin;
}

void PassUploads::send() {
  if (sent_ == used_) return;
  const size_t begin = std::exchange(sent_, used_);
  cuda_check(cudaMemcpyAsync(device_ + begin, host_.get() + begin, used_ - begin, cudaMemcpyHostToDevice, stream_),
             "cudaMemcpyAsync");
}

}  // namespace sida
