#include "core/checkpoint_error.h"

namespace sida {

Error checkpoint_error(const CheckpointFault& fault) {
  std::string line = escape_text(fault.file, 512);
  if (!fault.tensor.empty()) line += ": tensor \"" + escape_text(fault.tensor) + "\"";
  line += ": " + fault.what;
  if (!fault.expected.empty()) line += ": expected " + fault.expected;
  if (!fault.found.empty()) line += ", found " + fault.found;
  if (!fault.hint.empty()) line += "; " + fault.hint;
  return Error("checkpoint_invalid", line, fault.numbers);
}

std::map<std::string, double> expected_found(uint64_t expected, uint64_t found) {
  return {{"expected", static_cast<double>(expected)}, {"found", static_cast<double>(found)}};
}

}  // namespace sida
