#include "checkpoint/gguf_model_files.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "checkpoint/contained_path.h"
#include "core/checkpoint_error.h"
#include "spec/families/family.h"
#include "spec/families/gguf_config.h"
#include "spec/families/gguf_field_names.h"

namespace sida {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".gguf";
constexpr uint64_t kMaxParts = 1024;
/// Longer texts and lists take no part in a config.
constexpr uint64_t kMaxText = 4096;
constexpr uint64_t kMaxList = 4096;

template <typename T>
T value_at(const std::string& bytes, size_t index = 0) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename Visit>
auto visit_number(GgufType type, const std::string& bytes, size_t index, Visit visit) {
  switch (type) {
    case GgufType::kU8:
      return visit(uint64_t{value_at<uint8_t>(bytes, index)});
    case GgufType::kI8:
      return visit(int64_t{value_at<int8_t>(bytes, index)});
    case GgufType::kU16:
      return visit(uint64_t{value_at<uint16_t>(bytes, index)});
    case GgufType::kI16:
      return visit(int64_t{value_at<int16_t>(bytes, index)});
    case GgufType::kU32:
      return visit(uint64_t{value_at<uint32_t>(bytes, index)});
    case GgufType::kI32:
      return visit(int64_t{value_at<int32_t>(bytes, index)});
    case GgufType::kU64:
      return visit(value_at<uint64_t>(bytes, index));
    case GgufType::kI64:
      return visit(value_at<int64_t>(bytes, index));
    case GgufType::kF32:
      return visit(value_at<float>(bytes, index));
    case GgufType::kF64:
      return visit(value_at<double>(bytes, index));
    default:
      return visit(value_at<uint8_t>(bytes, index) != 0);
  }
}

std::optional<GgufModel::Value> config_value(const GgufFile& file, const GgufEntry& entry) {
  const bool text = entry.type == GgufType::kText;
  if (text && (entry.array || entry.bytes > kMaxText)) return std::nullopt;
  if (entry.count > kMaxList) return std::nullopt;
  const std::string bytes = file.read(entry);
  if (text) return bytes.substr(sizeof(uint64_t));
  if (!entry.array) {
    return visit_number(entry.type, bytes, 0, [](auto value) { return GgufModel::Value(value); });
  }
  std::vector<double> list;
  for (size_t i = 0; i < entry.count; ++i) {
    list.push_back(visit_number(entry.type, bytes, i, [](auto value) { return static_cast<double>(value); }));
  }
  return list;
}

std::vector<float> read_floats(const GgufFile& file, const TensorInfo& tensor) {
  if (tensor.dtype != Dtype::kF32 || tensor.elements() > kMaxList) return {};
  std::vector<float> values(tensor.elements());
  file.file().pread_exact(tensor.offset, values.data(), tensor.bytes);
  return values;
}

GgufModel gguf_model(const std::vector<GgufFile>& files) {
  GgufModel::Parts parts;
  const GgufFile& first = files.front();
  parts.file = first.display();
  for (const GgufEntry& entry : first.entries()) {
    if (auto value = config_value(first, entry)) parts.values.emplace(entry.key, std::move(*value));
  }
  for (const GgufFile& file : files) {
    for (const TensorInfo& tensor : file.tensors()) {
      parts.shapes.emplace(tensor.name, tensor.shape);
      if (tensor.name == "rope_freqs.weight") parts.frequency_factors = read_floats(file, tensor);
    }
  }
  parts.end_tokens = gguf_end_tokens(first);
  return GgufModel(std::move(parts));
}

ModelTexts texts_of(const GgufModel& model) {
  return {family_of(model).gguf->config(model), gguf_generation_config(model)};
}

/// The name of a split model's part, `NAME-00002-of-00003.gguf`.
struct PartName {
  std::string name;
  uint64_t number, count;  ///< numbers begin at 1

  std::string of(uint64_t part) const {
    char numbers[32];
    std::snprintf(numbers, sizeof(numbers), "-%05u-of-%05u", static_cast<unsigned>(part), static_cast<unsigned>(count));
    return name + numbers + std::string(kSuffix);
  }
};

std::optional<PartName> part_name(const std::string& file) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (file.size() <= kForm.size()) return std::nullopt;
  const std::string end = file.substr(file.size() - kForm.size());
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kForm[i] == '0' ? !digit : end[i] != kForm[i]) return std::nullopt;
  }
  return PartName{file.substr(0, file.size() - kForm.size()), std::stoul(end.substr(1, 5)),
                  std::stoul(end.substr(10, 5))};
}

void check_split(const GgufFile& file, const char* key, uint64_t expected) {
  const auto found = gguf_whole_number(file, key);
  if (found == expected) return;
  throw checkpoint_error({file.display(), "", "metadata \"" + std::string(key) + "\"", std::to_string(expected),
                          found ? std::to_string(*found) : "none", "the parts are of different models",
                          found ? expected_found(expected, *found) : std::map<std::string, double>{}});
}

/// Parts after the first may repeat what kind of model it is.
void check_architecture(const GgufFile& first, const GgufFile& part) {
  constexpr std::string_view kKey = "general.architecture";
  const GgufEntry* const own = part.find(kKey);
  if (own == nullptr) return;
  const GgufEntry* const expected = first.find(kKey);
  if (expected != nullptr && expected->type == own->type && expected->bytes == own->bytes &&
      first.read(*expected) == part.read(*own)) {
    return;
  }
  throw checkpoint_error({part.display(),
                          "",
                          "metadata \"general.architecture\"",
                          "that of the first part",
                          "another",
                          "the parts are of different models",
                          {}});
}

std::vector<GgufFile> open_parts(const std::string& directory, const PartName& name) {
  if (name.number == 0 || name.number > name.count || name.count > kMaxParts) {
    throw checkpoint_error({join_path(directory, name.of(name.number)),
                            "",
                            "number of the part",
                            "from 1 to the count of parts, at most " + std::to_string(kMaxParts),
                            std::to_string(name.number) + " of " + std::to_string(name.count),
                            "",
                            {}});
  }
  std::vector<GgufFile> files;
  uint64_t tensors = 0;
  for (uint64_t part = 1; part <= name.count; ++part) {
    files.push_back(GgufFile::open(directory, name.of(part)));
    check_split(files.back(), "split.no", part - 1);
    check_split(files.back(), "split.count", name.count);
    tensors += files.back().tensors().size();
    if (tensors > kMaxGgufTensors) {
      throw checkpoint_error({files.back().display(), "", "tensors of the parts so far",
                              "at most " + std::to_string(kMaxGgufTensors), std::to_string(tensors), "",
                              expected_found(kMaxGgufTensors, tensors)});
    }
  }
  for (const GgufFile& file : files) {
    check_split(file, "split.tensors.count", tensors);
    check_architecture(files.front(), file);
  }
  return files;
}

}  // namespace

bool is_gguf(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return false;
  return fs::exists(status) || path.ends_with(kSuffix);
}

std::vector<GgufFile> open_gguf(const std::string& path) {
  fs::path named = path;
  std::error_code error;
  // A link that is named may lead anywhere, like a directory. Blobs of the Hugging Face cache have no names.
  const fs::path real = fs::canonical(named, error);
  if (!error && real.extension() == kSuffix) named = real;
  const std::string directory = named.has_parent_path() ? named.parent_path().string() : ".";
  const std::string file = named.filename().string();
  if (const auto part = part_name(file)) return open_parts(directory, *part);
  std::vector<GgufFile> files;
  files.push_back(GgufFile::open(directory, file));
  const auto count = gguf_whole_number(files.front(), "split.count");
  if (count && *count > 1) {
    throw checkpoint_error({files.front().display(),
                            "",
                            "name of a part",
                            "one like NAME-00001-of-" +
                                std::string(5 - std::min<size_t>(5, std::to_string(*count).size()), '0') +
                                std::to_string(*count) + ".gguf",
                            "\"" + escape_text(file) + "\"",
                            "all parts are found by their names",
                            {}});
  }
  return files;
}

ModelTexts gguf_texts(const std::vector<GgufFile>& files) { return texts_of(gguf_model(files)); }

ModelFiles read_gguf_model_files(const std::vector<GgufFile>& files) {
  const GgufModel model = gguf_model(files);
  return read_model_files(texts_of(model), {files.front().display(), gguf_field_names(model)});
}

std::optional<uint64_t> gguf_whole_number(const GgufFile& file, std::string_view key) {
  const GgufEntry* entry = file.find(key);
  if (entry == nullptr || entry->array || entry->type == GgufType::kText) return std::nullopt;
  return visit_number(entry->type, file.read(*entry), 0, [](auto value) -> std::optional<uint64_t> {
    using Value = decltype(value);
    if constexpr (std::is_same_v<Value, uint64_t>) return value;
    if constexpr (std::is_same_v<Value, int64_t>) {
      if (value >= 0) return static_cast<uint64_t>(value);
    }
    return std::nullopt;
  });
}

}  // namespace sida
