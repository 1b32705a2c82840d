#include "model/families/rope_config.h"

#include <cmath>
#include <optional>
#include <string>

namespace sida {
namespace {

constexpr double kMaxTheta = 1e12;

double read_theta(const ConfigReader& reader, double fallback) {
  return reader.real("rope_theta", 1, kMaxTheta, fallback);
}

/// Reads rope_scaling or rope_parameters, where the config has one. `theta` is the config's own.
double read_parameters(const ConfigReader& rope, double theta) {
  rope.require_text(rope.alias({"rope_type", "type"}), "default", "other rotary positions are not supported");
  if (rope.real("partial_rotary_factor", 0, 1, 1) != 1) {
    throw rope.fault("partial_rotary_factor", "1", rope.field("partial_rotary_factor")->describe(),
                     "heads are rotated as a whole");
  }
  for (const char* kind : {"full_attention", "sliding_attention"}) {
    if (const auto other = rope.field(kind)) {
      throw rope.fault(kind, "none", other->describe(), "all layers have the same rotary positions");
    }
  }
  return read_theta(rope, theta);
}

}  // namespace

Rope read_rope(const ConfigReader& reader, size_t width) {
  double theta = read_theta(reader, 10000);
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (const auto rope = reader.object(name)) theta = read_parameters(*rope, theta);
  }
  // In float32, as in transformers. The powers are rounded once and agree with transformers' to within the last bit.
  Rope rope;
  const double base = static_cast<float>(theta);
  for (size_t i = 0; i < width; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(width);
    rope.inverse_frequencies.push_back(1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  return rope;
}

}  // namespace sida
