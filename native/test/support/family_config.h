#pragma once

#include <string>
#include <variant>
#include <vector>

#include "doctest/doctest.h"
#include "model/model_config.h"
#include "support/error_checks.h"

namespace sida::testing {

/// A family's config of these fields alone.
inline ModelSpec parse_family(const std::string& family, const std::string& fields = "") {
  const std::string text = R"({"model_type":")" + family + '"' + (fields.empty() ? "" : "," + fields) + "}";
  return parse_model_config(text, "config.json").spec;
}

inline const AttentionSpec& attention_of(const ModelSpec& spec) { return spec.stacks[0].layers[0].self; }
inline const Rope& rope_of(const ModelSpec& spec) { return std::get<Rope>(spec.stacks[0].positions); }

/// One letter a layer: d where it is dense, s where it is sparse.
inline std::string layer_kinds(const ModelSpec& spec) {
  std::string kinds;
  for (const LayerSpec& layer : spec.last().layers) kinds += layer.moe() == nullptr ? 'd' : 's';
  return kinds;
}

/// The width of a dense layer.
inline size_t dense_width(const ModelSpec& spec, size_t layer) {
  return std::get<FfnSpec>(spec.last().layers.at(layer).feed_forward).width;
}

/// Each layer's window; 0: none.
inline std::vector<size_t> windows_of(const ModelSpec& spec) {
  std::vector<size_t> windows;
  for (const LayerSpec& layer : spec.last().layers) windows.push_back(layer.self.window.value_or(0));
  return windows;
}

struct RefusedFields {
  std::string fields;
  std::vector<std::string> parts;  ///< of the error
};

inline void check_refused(const std::string& family, const std::vector<RefusedFields>& rows) {
  for (const RefusedFields& row : rows) {
    CAPTURE(row.fields);
    const std::string message = error_of([&] { parse_family(family, row.fields); });
    CHECK(message.find("config.json: ") == 0);
    check_has(message, row.parts);
  }
}

}  // namespace sida::testing
