#pragma once

// Stands in for the CUDA toolkit's header of this name: what the project uses of it, run on the CPU
// (docs/cuda.md).
#include "language.h"
#include "runtime/api.h"
