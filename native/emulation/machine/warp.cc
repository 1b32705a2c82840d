#include "machine/block.h"
#include "machine/sanitizers.h"

namespace sida::emulation {
namespace {

struct Shuffle {
  unsigned word, source, result;
};

constexpr WarpOperation kBarrier{"__syncwarp", [](unsigned, void* const*) {}};

constexpr WarpOperation kShuffle{"__shfl_sync", [](unsigned mask, void* const* operands) {
                                   for (unsigned lane = 0; lane < 32; ++lane) {
                                     if ((mask >> lane & 1) == 0) continue;
                                     auto& own = *static_cast<Shuffle*>(operands[lane]);
                                     own.result = static_cast<Shuffle*>(operands[own.source])->word;
                                   }
                                 }};

}  // namespace

void warp_barrier(unsigned mask) {
  Block& block = Block::current();
  void* const order = block.warp_order();
  release(order);
  block.together(mask, kBarrier, nullptr);
  acquire(order);
}

unsigned shuffle(unsigned mask, unsigned word, unsigned source) {
  Block& block = Block::current();
  if ((mask >> source & 1) == 0) {
    block.fail(cudaErrorLaunchFailure, "a shuffle reads a lane that is not in its mask");
  }
  Shuffle own{word, source, 0};
  block.together(mask, kShuffle, &own);
  return own.result;
}

}  // namespace sida::emulation
