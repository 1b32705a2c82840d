#include "emulated_instructions.h"
#include "machine/block.h"

namespace sida::emulation {

uint4 load_once_16(const void* global) {
  if (reinterpret_cast<uintptr_t>(global) % sizeof(uint4) != 0) {
    Block::current().fail(cudaErrorMisalignedAddress, "an address of load_once_16() is not a multiple of 16");
  }
  return *static_cast<const uint4*>(global);
}

}  // namespace sida::emulation
