#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/error.h"

namespace sida {

/// The parts of an error about a checkpoint. Empty parts are left out of the line `<file>: tensor "<name>": <what>:
/// expected <expected>, found <found>; <hint>`.
struct CheckpointFault {
  std::string file;
  std::string_view tensor;
  std::string what;
  std::string expected;
  std::string found;
  std::string hint;
  std::map<std::string, double> numbers;
};

/// A checkpoint_invalid error. File and tensor are escaped here; the other parts must be printable.
Error checkpoint_error(const CheckpointFault& fault);

/// The figures of an error that compares two numbers.
std::map<std::string, double> expected_found(uint64_t expected, uint64_t found);

}  // namespace sida
