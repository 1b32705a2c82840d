#pragma once

#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "support/oracle_cases.h"
#include "support/text_file.h"

namespace sida::testing {

struct Prompt {
  std::vector<int32_t> tokens;
  std::vector<int32_t> greedy;  ///< transformers' greedy continuation
};

/// The prompts of a decoder-only fixture, in the order of its cases.
inline std::vector<Prompt> decoder_prompts(const Cases& cases, const std::string& directory) {
  const auto list = JsonDocument::parse(read_text_file(directory + "/cases.json", 1 << 20), {"cases.json"});
  std::vector<Prompt> prompts;
  for (const JsonValue& entry : list.root().elements()) {
    const auto ids = cases.read<int64_t>(entry.at("case").as_string() + ".input_ids");
    Prompt prompt{{ids.begin(), ids.end()}, {}};
    // A list of ids, or a list of one such list.
    for (const JsonValue& line : entry.at("greedy").elements()) {
      if (!line.is_array()) {
        prompt.greedy.push_back(static_cast<int32_t>(line.as_i64()));
        continue;
      }
      for (const JsonValue& id : line.elements()) prompt.greedy.push_back(static_cast<int32_t>(id.as_i64()));
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace sida::testing
