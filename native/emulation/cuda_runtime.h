#pragma once

// Stands in for the CUDA toolkit's header of this name: what the project uses of it, run on the CPU
// (docs/cuda.md).
#include "language/arithmetic.h"
#include "language/atomics.h"
#include "language/qualifiers.h"
#include "language/vectors.h"
#include "language/warp_functions.h"
#include "runtime/api.h"
