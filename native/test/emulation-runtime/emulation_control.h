#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

// What tests set on the emulated device, and ask of it.
namespace sida::emulation {

/// Waits for all streams, then takes away every error. Memory, streams and events stay.
void reset();

/// Device memory that is allocated.
size_t allocated_memory();

/// Why the last kernel failed, in words; empty if none did since reset().
std::string last_failure();

/// Calls of the runtime since the process began.
struct Calls {
  uint64_t launches, copies, waits;  ///< copies: memsets too; waits: of the host for the device
};
Calls calls();

/// SIDA_EMULATION_SEED, or 1: the lot by which the threads of a block take turns.
uint64_t shuffle_seed();

}  // namespace sida::emulation
