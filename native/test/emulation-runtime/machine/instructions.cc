// What the threads of a block do together, and their copies that end later.
#include <bit>
#include <cstdint>
#include <cstring>

#include "emulated_instructions.h"
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

constexpr unsigned kRows = 16, kColumns = 8, kDepth = 16;

struct Fragments {
  float* c;
  const uint32_t *a, *b;
};

/// Puts the two values of a word at `to` and `stride` further.
void put(uint32_t word, float* to, size_t stride) {
  to[0] = std::bit_cast<float>(word << 16);
  to[stride] = std::bit_cast<float>(word & 0xffff0000U);
}

/// The layouts are those of mma.m16n8k16 for .bf16 (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating
/// point type"): group = lane / 4, place = lane % 4.
void multiply(unsigned, void* const* operands) {
  float a[kRows][kDepth], b[kDepth][kColumns], c[kRows][kColumns];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const Fragments*>(operands[lane]);
    const unsigned group = lane / 4, place = lane % 4 * 2;
    put(own.a[0], &a[group][place], 1);
    put(own.a[1], &a[group + 8][place], 1);
    put(own.a[2], &a[group][place + 8], 1);
    put(own.a[3], &a[group + 8][place + 8], 1);
    put(own.b[0], &b[place][group], kColumns);
    put(own.b[1], &b[place + 8][group], kColumns);
    c[group][place] = own.c[0];
    c[group][place + 1] = own.c[1];
    c[group + 8][place] = own.c[2];
    c[group + 8][place + 1] = own.c[3];
  }
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned k = 0; k < kDepth; ++k) {
      for (unsigned column = 0; column < kColumns; ++column) c[row][column] += a[row][k] * b[k][column];
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const Fragments*>(operands[lane]);
    const unsigned group = lane / 4, place = lane % 4 * 2;
    own.c[0] = c[group][place];
    own.c[1] = c[group][place + 1];
    own.c[2] = c[group + 8][place];
    own.c[3] = c[group + 8][place + 1];
  }
}

constexpr WarpOperation kMultiply{"mma_bf16", multiply};

struct ByteFragments {
  int32_t* c;
  const uint32_t *a, *b;
};

int32_t signed_byte(uint32_t word, unsigned which) { return static_cast<int8_t>(word >> (8 * which)); }

/// Fragments as in the PTX ISA, "Matrix fragments for mma.m16n8k32", type .s8: group = lane / 4, place = lane % 4. One
/// lane has each output. The lanes of its row and of its column have its inputs.
void multiply_bytes(unsigned, void* const* operands) {
  const auto of = [&](unsigned lane) -> const ByteFragments& {
    return *static_cast<const ByteFragments*>(operands[lane]);
  };
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned group = lane / 4, column = lane % 4 * 2 + i % 2;
      auto sum = static_cast<uint32_t>(of(lane).c[i]);
      for (unsigned place = 0; place < 4; ++place) {
        const uint32_t* a = of(group * 4 + place).a + i / 2;
        const uint32_t* b = of(column * 4 + place).b;
        for (unsigned half = 0; half < 2; ++half) {
          for (unsigned byte = 0; byte < 4; ++byte) {
            sum += static_cast<uint32_t>(signed_byte(a[2 * half], byte) * signed_byte(b[half], byte));
          }
        }
      }
      of(lane).c[i] = static_cast<int32_t>(sum);
    }
  }
}

constexpr WarpOperation kMultiplyBytes{"mma_int8", multiply_bytes};

constexpr size_t kBytes = 16;

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

void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments own{c, a, b};
  Block::current().together(0xffffffffU, kMultiply, &own);
}

void mma_int8(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  ByteFragments own{c, a, b};
  Block::current().together(0xffffffffU, kMultiplyBytes, &own);
}

void AsyncCopies::begin(void* shared, const void* global) {
  std::memset(shared, 0xff, kBytes);
  copies_.push_back({shared, global});
}

void AsyncCopies::commit() { group_ends_.push_back(copies_.size()); }

void AsyncCopies::finish(size_t groups) {
  if (group_ends_.size() <= groups) return;
  const size_t done_groups = group_ends_.size() - groups;
  const size_t done = group_ends_[done_groups - 1];
  for (size_t i = 0; i < done; ++i) std::memcpy(copies_[i].shared, copies_[i].global, kBytes);
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(done));
  group_ends_.erase(group_ends_.begin(), group_ends_.begin() + static_cast<ptrdiff_t>(done_groups));
  for (size_t& end : group_ends_) end -= done;
}

void AsyncCopies::clear() {
  copies_.clear();
  group_ends_.clear();
}

void copy_async_16(void* shared, const void* global) {
  Block& block = Block::current();
  if (reinterpret_cast<uintptr_t>(shared) % kBytes != 0 || reinterpret_cast<uintptr_t>(global) % kBytes != 0) {
    block.fail(cudaErrorMisalignedAddress, "an address of copy_async_16() is not a multiple of 16");
  }
  block.copies().begin(shared, global);
}

uint4 load_once_16(const void* global) {
  if (reinterpret_cast<uintptr_t>(global) % kBytes != 0) {
    Block::current().fail(cudaErrorMisalignedAddress, "an address of load_once_16() is not a multiple of 16");
  }
  return *static_cast<const uint4*>(global);
}

void copy_async_commit() { Block::current().copies().commit(); }

void copy_async_finish(size_t groups) { Block::current().copies().finish(groups); }

}  // namespace sida::emulation
