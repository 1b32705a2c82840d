#include <algorithm>
#include <array>
#include <string_view>

#include "checkpoint/gguf_model_files.h"
#include "spec/families/gguf_model.h"

namespace sida {
namespace {

constexpr std::array<std::string_view, 15> kEnds{
    "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>",
    "<|return|>",    "<|call|>",        "<|end|>",    "<EOT>",      "<end_of_turn>",
    "[EOT]",         "[EOS]",           "<eos>",      "_<EOT>",     "<end_of_utterance>"};

}  // namespace

std::vector<uint64_t> gguf_end_tokens(const GgufFile& file) {
  std::vector<uint64_t> ends;
  const auto add = [&](uint64_t token) {
    if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
  };
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (const auto token = gguf_whole_number(file, key); token && *token != kNoToken) add(*token);
  }
  const GgufEntry* tokens = file.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || !tokens->array || tokens->type != GgufType::kText) return ends;
  std::optional<uint64_t> message_end;
  bool returns = false;
  file.for_each_text(*tokens, [&](uint64_t token, std::string_view text) {
    if (std::ranges::find(kEnds, text) == kEnds.end()) return;
    returns |= text == "<|return|>";
    text == "<|end|>" ? void(message_end = token) : add(token);
  });
  // Where a text of its own ends an answer, this one only ends one of its messages.
  if (message_end && !returns) add(*message_end);
  return ends;
}

}  // namespace sida
