#include "spec/families/rope_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>

#include "core/json.h"
#include "spec/families/config_limits.h"

namespace sida {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

/// The fields of a rotary position, wherever the config has them.
struct Fields {
  /// rope_scaling, the older name, which counts where it is not empty, or rope_parameters.
  std::optional<ConfigReader> scaling;
  std::string type = "default";
  double theta;

  Fields(const ConfigReader& reader, const RopeDefaults& defaults)
      : theta(reader.real("rope_theta", 1, kMaxTheta, defaults.theta)) {
    const auto older = reader.field("rope_scaling");
    const bool empty = older && older->is_object() && older->size() == 0;
    scaling = reader.object(older && !empty ? "rope_scaling" : "rope_parameters");
    if (!scaling && defaults.scaling != nullptr) {
      fallback_ = JsonDocument::parse(defaults.scaling, {reader.file()});
      scaling.emplace(fallback_->root(), reader.file());
    }
    if (scaling) read(*scaling);
  }

 private:
  std::optional<JsonDocument> fallback_;

  void read(const ConfigReader& rope) {
    for (const char* kind : {"full_attention", "sliding_attention"}) {
      if (const auto other = rope.field(kind)) {
        throw rope.fault(kind, "none", other->describe(), "all layers have the same rotary positions");
      }
    }
    theta = rope.real("rope_theta", 1, kMaxTheta, theta);
    const char* name = rope.alias({"rope_type", "type"});
    const auto value = rope.field(name);
    if (!value) return;
    for (const char* known : {"default", "linear", "yarn", "llama3"}) {
      if (value->try_string() == known) {
        type = known;
        return;
      }
    }
    throw rope.fault(name, "\"default\", \"linear\", \"yarn\" or \"llama3\"", value->describe(),
                     "other rotary positions are not supported");
  }
};

/// Su et al., "YaRN", equation for the attention's temperature.
double yarn_magnitude(double factor, double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; }

/// Positions before and after they were scaled.
struct Contexts {
  int original;
  int scaled;
};

/// A field of the config itself wins over that of the rope's object, and without both nothing was scaled.
Contexts read_contexts(const ConfigReader& reader, const ConfigReader& rope, int context) {
  const char* const original = "original_max_position_embeddings";
  const int scaled = reader.integer("max_position_embeddings", 1, kMaxCount, context);
  const ConfigReader& owner = reader.field(original) ? reader : rope;
  return {owner.integer(original, 1, kMaxCount, scaled), scaled};
}

double yarn_factor(const ConfigReader& rope, const Contexts& contexts) {
  return rope.real("factor", 1, kMaxFactor, static_cast<double>(contexts.scaled) / contexts.original);
}

/// Where the ramp from kept to interpolated frequencies begins and ends, in pairs of columns.
std::pair<double, double> yarn_ramp(const ConfigReader& rope, double original, double theta, size_t width) {
  const auto find = [&](double rotations) {
    return static_cast<double>(width) * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = find(rope.real("beta_fast", 1e-3, kMaxFactor, 32));
  double high = find(rope.real("beta_slow", 1e-3, kMaxFactor, 1));
  if (rope.boolean("truncate", true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(width) - 1);
  return {low, low == high ? high + 0.001 : high};
}

void scale_yarn(const ConfigReader& reader, const ConfigReader& rope, int context, double theta, Rope& positions) {
  if (theta <= 1) {
    const ConfigReader& owner = rope.field("rope_theta") ? rope : reader;
    throw owner.fault("rope_theta", "more than 1 with \"yarn\"", std::to_string(theta), "");
  }
  const Contexts contexts = read_contexts(reader, rope, context);
  const double factor = yarn_factor(rope, contexts);
  const auto [low, high] = yarn_ramp(rope, contexts.original, theta, positions.width());
  for (size_t j = 0; j < positions.inverse_frequencies.size(); ++j) {
    const auto ramp = static_cast<float>(std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0));
    float& inverse = positions.inverse_frequencies[j];
    inverse = inverse / static_cast<float>(factor) * ramp + inverse * (1 - ramp);
  }
  const double scale = rope.real("mscale", 0, kMaxFactor, 0), all = rope.real("mscale_all_dim", 0, kMaxFactor, 0);
  double magnitude = yarn_magnitude(factor, 1);
  // transformers takes 0 for missing.
  if (scale > 0 && all > 0) magnitude = yarn_magnitude(factor, scale) / yarn_magnitude(factor, all);
  positions.magnitude = static_cast<float>(rope.real("attention_factor", 1e-6, kMaxFactor, magnitude));
}

/// The factor of a type that has no default of it.
double read_factor(const ConfigReader& rope) {
  if (rope.field("factor")) return rope.real("factor", 1, kMaxFactor, 1);
  throw rope.fault("factor", "a number from 1 on", "none", "");
}

void scale_llama3(const ConfigReader& reader, const ConfigReader& rope, int context, Rope& positions) {
  const double factor = read_factor(rope);
  const double low = rope.real("low_freq_factor", 1e-6, kMaxFactor, 1);
  const double high = rope.real("high_freq_factor", 1e-6, kMaxFactor, 4);
  if (high <= low) {
    throw rope.fault("high_freq_factor", "more than \"low_freq_factor\"", std::to_string(high), "");
  }
  const double original = read_contexts(reader, rope, context).original;
  for (float& inverse : positions.inverse_frequencies) {
    const double length = 2 * std::numbers::pi / static_cast<double>(inverse);
    const double kept = std::clamp((original / length - low) / (high - low), 0.0, 1.0);
    const auto share = static_cast<float>(kept);
    inverse = (1 - share) * (inverse / static_cast<float>(factor)) + share * inverse;
  }
}

size_t rotary_width(const ConfigReader& reader, const Fields& fields, size_t head_dim, std::optional<double> partial) {
  const char* name = "partial_rotary_factor";
  const ConfigReader& owner = fields.scaling && fields.scaling->field(name) ? *fields.scaling : reader;
  const double share = owner.real(name, 0, 1, partial.value_or(1));
  if (share == 1) return head_dim;
  if (!partial) throw owner.fault(name, "1", owner.field(name)->describe(), "heads are rotated as a whole");
  const auto width = static_cast<size_t>(static_cast<double>(head_dim) * share);
  // An odd width is that of the frequencies' exponents; the pairs have one column more.
  if (width > 0 && (width % 2 == 0 || (width < head_dim && fields.type != "yarn"))) return width;
  throw owner.fault(name, "a share that is an even number of a head's " + std::to_string(head_dim) + " columns",
                    std::to_string(share), "");
}

}  // namespace

// In float32, as in transformers. The powers are rounded once and agree with transformers' to within the last bit.
std::vector<float> rope_frequencies(double theta, size_t width) {
  std::vector<float> inverse;
  const double base = static_cast<float>(theta);
  for (size_t i = 0; i < width; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(width);
    inverse.push_back(1.0f / static_cast<float>(std::pow(base, static_cast<double>(exponent))));
  }
  return inverse;
}

Rope read_rope(const ConfigReader& reader, size_t head_dim, const RopeDefaults& defaults) {
  const Fields fields(reader, defaults);
  Rope rope;
  rope.inverse_frequencies = rope_frequencies(fields.theta, rotary_width(reader, fields, head_dim, defaults.partial));
  if (fields.type == "linear") {
    const auto factor = static_cast<float>(read_factor(*fields.scaling));
    for (float& inverse : rope.inverse_frequencies) inverse /= factor;
  } else if (fields.type == "yarn") {
    scale_yarn(reader, *fields.scaling, defaults.context, fields.theta, rope);
  } else if (fields.type == "llama3") {
    scale_llama3(reader, *fields.scaling, defaults.context, rope);
  }
  return rope;
}

double score_factor(const ConfigReader& reader, const RopeDefaults& defaults) {
  const Fields fields(reader, defaults);
  if (fields.type == "default" || !fields.scaling->field("mscale_all_dim")) return 1;
  const ConfigReader& rope = *fields.scaling;
  const bool yarn = fields.type == "yarn";
  const double factor = yarn ? yarn_factor(rope, read_contexts(reader, rope, defaults.context)) : read_factor(rope);
  return yarn_magnitude(factor, rope.real("mscale_all_dim", 0, kMaxFactor, 0));
}

}  // namespace sida
