#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

// What tests set on the emulated device, and ask of it.
namespace sida::emulation {

/// Waits for all streams, then takes away every error. Memory, streams and events stay.
void reset();

/// Device memory that the driver has handed out, in pages of 2 MiB, with the process's context: 64 MiB, or what
/// SIDA_EMULATION_CONTEXT says in bytes.
size_t used_memory();

/// The most that used_memory() was since this was called last.
size_t peak_memory();

/// Memory of the device; at first 4 GiB, or what SIDA_EMULATION_MEMORY says in bytes.
void set_total_memory(size_t bytes);

/// Why the last kernel failed, in words; empty if none did since reset().
std::string last_failure();

/// Calls of the runtime since the process began.
struct Calls {
  uint64_t launches, copies, waits;  ///< copies: memsets too; waits: of the host for the device
};
Calls calls();

/// From now on, a stream's work behind a wait for another stream begins late by `time`. Replayed graphs have no waits.
void delay_waits(std::chrono::microseconds time);

/// SIDA_EMULATION_SEED, or 1: the lot by which the threads of a block take turns.
uint64_t shuffle_seed();

}  // namespace sida::emulation
