#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"
#include "support/oracle_cases.h"
#include "support/text_file.h"

namespace sida::testing {

inline constexpr const char* kDecoderFixtures[] = {
    "olmoe-tiny",   "mixtral-tiny",  "qwen2-moe-tiny",        "qwen3-moe-tiny",
    "gpt-oss-tiny", "glm4-moe-tiny", "deepseek-v2-lite-tiny", "deepseek-v3-tiny"};

/// Logits of all rows of a prompt that is run in chunks of `chunk` tokens.
inline std::vector<float> logits_in_chunks(Engine& engine, const std::vector<int32_t>& prompt, size_t chunk) {
  std::vector<float> logits;
  const std::vector<int32_t> sequence{1};
  for (size_t begin = 0; begin < prompt.size(); begin += chunk) {
    const size_t count = std::min(chunk, prompt.size() - begin);
    const std::vector<int32_t> tokens(prompt.begin() + static_cast<long>(begin),
                                      prompt.begin() + static_cast<long>(begin + count));
    const std::vector<int32_t> offsets{0, static_cast<int32_t>(count)};
    std::vector<int32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0);
    Batch batch = pass_of(0, sequence, offsets, tokens);
    batch.logit_rows = rows;
    const Run out = run(engine, batch);
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  engine.release_sequences(sequence);
  return logits;
}

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
