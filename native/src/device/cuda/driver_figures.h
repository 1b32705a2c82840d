#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace sida {

/// What the driver says of the first GPU, as nvidia-smi prints it. Asking needs no context.
struct DriverFigures {
  std::string version;      ///< of the driver
  uint64_t used_bytes = 0;  ///< by all processes
  uint64_t own_bytes = 0;   ///< by this process; 0 where the driver lists none, as in some containers
};

/// Null where there is no NVML (libnvidia-ml.so.1), or where it fails.
std::optional<DriverFigures> driver_figures();

}  // namespace sida
