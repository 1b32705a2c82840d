#pragma once

#include <functional>
#include <string>

#include "core/json.h"

namespace sida {

using JsonVisit = std::function<void(std::string key, JsonValue value)>;

/// Reads a text into `tree`, whose `source` is set and whose other fields are empty. With `visit` the text must be an
/// object, and each member is dropped after its visit.
void read_json(const JsonInput& text, JsonTree* tree, const JsonVisit* visit);

}  // namespace sida
