#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/gguf_file.h"
#include "checkpoint/model_files.h"
#include "spec/families/gguf_model.h"

namespace sida {

/// Whether a model's path is that of a GGUF file: one that is there and no directory, or one that is called so.
bool is_gguf(const std::string& path);

/// Opens a GGUF file, or all parts of the split model that it is one of, the first of them first. Throws io_error, and
/// checkpoint_invalid where a part is missing or is one of another model.
std::vector<GgufFile> open_gguf(const std::string& path);

/// Configs in the form of Hugging Face checkpoints. Throws checkpoint_invalid where the model is of no known family.
ModelTexts gguf_texts(const std::vector<GgufFile>& files);
/// The same, read.
ModelFiles read_gguf_model_files(const std::vector<GgufFile>& files);

/// The tokens that end a generation: those that the metadata names so, and those with texts that models use for it.
std::vector<uint64_t> gguf_end_tokens(const GgufFile& file);

/// A scalar of the metadata of a whole number's type; nothing where there is none.
std::optional<uint64_t> gguf_whole_number(const GgufFile& file, std::string_view key);

}  // namespace sida
