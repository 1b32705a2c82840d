#include <cstring>

#include "machine/block.h"
#include "machine/sanitizers.h"

namespace sida::emulation {
namespace {

struct Shuffle {
  unsigned word;
  unsigned source;
  unsigned result;
};

struct Ballot {
  bool predicate;
  unsigned result;
};

struct Gather {
  unsigned word;
  LaneWords* result;
};

template <class Operand>
Operand& operand(void* const* operands, unsigned lane) {
  return *static_cast<Operand*>(operands[lane]);
}

template <class Visit>
void each_lane(unsigned mask, Visit visit) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1) != 0) visit(lane);
  }
}

constexpr WarpOperation kBarrier{"__syncwarp", [](unsigned, void* const*) {}};

constexpr WarpOperation kShuffle{"__shfl_sync", [](unsigned mask, void* const* operands) {
                                   each_lane(mask, [&](unsigned lane) {
                                     auto& own = operand<Shuffle>(operands, lane);
                                     own.result = operand<Shuffle>(operands, own.source).word;
                                   });
                                 }};

constexpr WarpOperation kBallot{
    "__ballot_sync", [](unsigned mask, void* const* operands) {
      unsigned votes = 0;
      each_lane(mask, [&](unsigned lane) {
        if (operand<Ballot>(operands, lane).predicate) votes |= 1U << lane;
      });
      each_lane(mask, [&](unsigned lane) { operand<Ballot>(operands, lane).result = votes; });
    }};

constexpr WarpOperation kGather{
    "__reduce_sync", [](unsigned mask, void* const* operands) {
      LaneWords all = {};
      each_lane(mask, [&](unsigned lane) { all.words[lane] = operand<Gather>(operands, lane).word; });
      each_lane(mask, [&](unsigned lane) { *operand<Gather>(operands, lane).result = all; });
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
  if (source >= 32 || (mask >> source & 1) == 0) {
    block.fail(cudaErrorLaunchFailure, "a shuffle reads a lane that is not in its mask");
  }
  Shuffle own{word, source, 0};
  block.together(mask, kShuffle, &own);
  return own.result;
}

unsigned ballot(unsigned mask, bool predicate) {
  Ballot own{predicate, 0};
  Block::current().together(mask, kBallot, &own);
  return own.result;
}

LaneWords gather(unsigned mask, unsigned word) {
  LaneWords all;
  Gather own{word, &all};
  Block::current().together(mask, kGather, &own);
  return all;
}

}  // namespace sida::emulation
