#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/types.h"

// What tests set on the emulated device, and ask of it.
namespace sida::emulation {

/// What a fault is injected into: any call of the runtime, a kernel as it runs, or a copy as it runs.
enum class Operation { kCall, kLaunch, kCopy };

/// The `nth` coming operation (1 is the next) fails with `error`, and from then on every call of the runtime.
void inject(Operation operation, uint64_t nth, cudaError_t error);

/// Waits for all streams, then takes away every error, injection and setting below. Memory, streams and
/// events stay.
void reset();

/// Device memory in all, 4 GiB at first. Below what is allocated: nothing is free.
void set_total_memory(size_t bytes);
size_t allocated_memory();

/// Every copy and kernel begins up to this long after it could. At first SIDA_EMULATION_DELAY_US, or 0.
void set_longest_delay(unsigned microseconds);

/// Why the last kernel failed, in words; empty if none did since reset().
std::string last_failure();

/// SIDA_EMULATION_SEED, or 1: the lot by which the threads of a block take turns.
uint64_t shuffle_seed();

}  // namespace sida::emulation
