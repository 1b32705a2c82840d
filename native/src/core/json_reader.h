#pragma once

#include <functional>
#include <string>

#include "core/json.h"

namespace sida {

using JsonVisit = std::function<void(std::string key, JsonValue value)>;

/// Reads a text into a tree that holds its source alone. With `visit` the text must be an object, whose
/// members are visited and forgotten one by one.
void read_json(const JsonInput& text, JsonTree* tree, const JsonVisit* visit);

}  // namespace sida
