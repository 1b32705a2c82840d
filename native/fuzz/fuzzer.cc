// Each reader has a fuzzer. SIDA_READER is the reader's function.
#include <cstddef>
#include <cstdint>

#include "readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sida::fuzzing::SIDA_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
