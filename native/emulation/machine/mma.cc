#include <bit>
#include <cstdint>

#include "emulated_instructions.h"
#include "machine/block.h"

namespace sida::emulation {
namespace {

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

}  // namespace

void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fragments own{c, a, b};
  Block::current().together(0xffffffffU, kMultiply, &own);
}

}  // namespace sida::emulation
