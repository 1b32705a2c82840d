#include "predictor/predictor_checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/model_file.h"
#include "checkpoint/safetensors_file.h"
#include "core/checkpoint_error.h"
#include "core/json.h"
#include "core/sha256.h"
#include "predictor/safetensors_writer.h"

namespace sida {
namespace {

constexpr uint64_t kVersion = 2;
constexpr uint64_t kMaxConfigBytes = 1 << 16;
constexpr size_t kNameDigits = 16;

constexpr const char* kConfig = "predictor.json";
constexpr const char* kLstm = "lstm";
constexpr const char* kAttention = "attention";
constexpr const char* kSparsemax = "sparsemax";
constexpr const char* kSoftmax = "softmax";

std::string config_path(const std::string& directory) { return directory + "/" + kConfig; }

std::string tensor_path(const std::string& directory, const char* kind, const std::string& sha256) {
  return directory + "/" + kind + "-" + sha256.substr(0, kNameDigits) + ".safetensors";
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

// ------------------------------------------------------------------------------------------------- writing

void list_tensors(const PredictorLayout& layout, const std::string& prefix, const float* values,
                  std::vector<SafetensorsTensor>* out) {
  for (const PredictorTensor& tensor : layout.tensors()) {
    if (tensor.count > 0) out->push_back({prefix + tensor.name, tensor.shape, values + tensor.offset});
  }
}

std::string write_tensors(const std::string& directory, const char* kind,
                          const std::vector<SafetensorsTensor>& tensors) {
  const std::string bytes = safetensors_bytes(tensors);
  std::string sha256 = sha256_of(bytes);
  write_file_atomically(tensor_path(directory, kind, sha256), bytes);
  return sha256;
}

std::string config_text(const PredictorConfig& config, const std::string& weights_sha256,
                        const std::string& optimizer_sha256, uint64_t steps) {
  const auto flag = [](bool value) { return value ? "true" : "false"; };
  std::string text = "{\n  \"version\": " + std::to_string(kVersion);
  const bool lstm = config.kind() == NetworkKind::kLstm;
  text += std::string(",\n  \"kind\": \"") + (lstm ? kLstm : kAttention) + "\"";
  text += ",\n  \"d_in\": " + std::to_string(config.d_in);
  text += ",\n  \"hidden\": " + std::to_string(config.hidden);
  text += ",\n  \"layers\": " + std::to_string(config.layers);
  text += ",\n  \"experts\": " + std::to_string(config.experts);
  text += std::string(",\n  \"causal\": ") + flag(config.causal);
  text += std::string(",\n  \"summary\": ") + flag(config.summary);
  if (lstm) {
    const bool softmax = config.attention_weights == WeightFunction::kSoftmax;
    text += ",\n  \"lstm_layers\": " + std::to_string(config.lstm_layers);
    text += std::string(",\n  \"bidirectional\": ") + flag(config.bidirectional);
    text += std::string(",\n  \"attention_weights\": \"") + (softmax ? kSoftmax : kSparsemax) + "\"";
  } else {
    text += ",\n  \"blocks\": " + std::to_string(config.blocks);
  }
  text += ",\n  \"weights_sha256\": \"" + weights_sha256 + "\"";
  if (!optimizer_sha256.empty()) {
    text += ",\n  \"optimizer_sha256\": \"" + optimizer_sha256 + "\"";
    text += ",\n  \"optimizer_steps\": " + std::to_string(steps);
  }
  return text + "\n}\n";
}

// ------------------------------------------------------------------------------------------------- reading

class CheckpointReader {
 public:
  explicit CheckpointReader(const std::string& directory)
      : directory_(directory),
        path_(config_path(directory)),
        document_(
            JsonDocument::parse(read_model_file(directory, kConfig, kMaxConfigBytes), {path_, "checkpoint_invalid"})),
        root_(document_.root()) {
    if (!root_.is_object()) throw fault("not a predictor's config", "an object", root_.describe());
  }

  PredictorConfig config() const {
    const JsonValue version = root_.at("version");
    if (version.try_u64() != kVersion) {
      throw fault("\"version\"", std::to_string(kVersion), version.describe(), "train the predictor again");
    }
    PredictorConfig config;
    config.d_in = root_.at("d_in").as_u64();
    config.hidden = root_.at("hidden").as_u64();
    config.layers = root_.at("layers").as_u64();
    config.experts = root_.at("experts").as_u64();
    config.causal = root_.at("causal").as_bool();
    config.summary = root_.at("summary").as_bool();
    if (one_of("kind", kLstm, kAttention)) {
      config.blocks = root_.at("blocks").as_u64();
      if (config.blocks == 0) throw fault("\"blocks\"", "1 or more", "0");
    } else {
      config.lstm_layers = root_.at("lstm_layers").as_u64();
      config.bidirectional = root_.at("bidirectional").as_bool();
      if (one_of("attention_weights", kSparsemax, kSoftmax)) config.attention_weights = WeightFunction::kSoftmax;
    }
    try {
      config.check();
    } catch (const Error& error) {
      throw Error("checkpoint_invalid", path_ + ": " + error.what(), error.numbers());
    }
    return config;
  }

  bool has_optimizer() const { return root_.find("optimizer_sha256").has_value(); }
  uint64_t optimizer_steps() const { return root_.at("optimizer_steps").as_u64(); }

  // Checks that the file whose digest is in the config has the layout's tensors, before there is room for them: a
  // config of a few bytes can ask for gigabytes.
  void check(const char* kind, const char* digest_name, const PredictorLayout& layout,
             std::initializer_list<const char*> prefixes) const {
    const SafetensorsFile file = SafetensorsFile::open(tensor_path(directory_, kind, digest_of(digest_name)));
    for (const char* prefix : prefixes) {
      for (const PredictorTensor& tensor : layout.tensors()) {
        if (tensor.count > 0) find_tensor(file, prefix + std::string(tensor.name), tensor);
      }
    }
  }

  // Reads the tensors of the file whose digest is in the config, into a buffer for each prefix.
  void read(const char* kind, const char* digest_name, const PredictorLayout& layout,
            const std::map<std::string, float*>& buffers) const {
    const std::string digest = digest_of(digest_name);
    const SafetensorsFile file = SafetensorsFile::open(tensor_path(directory_, kind, digest));
    size_t expected = 0;
    for (const auto& [prefix, values] : buffers) {
      for (const PredictorTensor& tensor : layout.tensors()) {
        if (tensor.count == 0) continue;
        ++expected;
        read_tensor(file, prefix + tensor.name, tensor, values + tensor.offset);
      }
    }
    if (file.tensors().size() != expected) {
      throw checkpoint_error({file.display(), "", "tensors", std::to_string(expected),
                              std::to_string(file.tensors().size()), "",
                              expected_found(expected, file.tensors().size())});
    }
    check_digest(file, digest);
  }

 private:
  std::string digest_of(const char* name) const {
    const std::string digest = root_.at(name).as_string();
    if (digest.size() == 64 && digest.find_first_not_of("0123456789abcdef") == std::string::npos) return digest;
    throw fault("\"" + std::string(name) + "\"", "64 hexadecimal digits", root_.at(name).describe());
  }

  // Whether the text of a field is the second of two.
  bool one_of(const char* name, const char* first, const char* second) const {
    const JsonValue value = root_.at(name);
    const auto text = value.try_string();
    if (text == second) return true;
    if (text == first) return false;
    const std::string expected = "\"" + std::string(first) + "\" or \"" + second + "\"";
    throw fault("\"" + std::string(name) + "\"", expected, value.describe());
  }

  static const TensorInfo& find_tensor(const SafetensorsFile& file, const std::string& name,
                                       const PredictorTensor& wanted) {
    for (const TensorInfo& tensor : file.tensors()) {
      if (tensor.name != name) continue;
      if (tensor.dtype != Dtype::kF32) {
        throw checkpoint_error({file.display(), name, "dtype", "F32", dtype_name(tensor.dtype), "", {}});
      }
      if (tensor.shape != wanted.shape) {
        throw checkpoint_error({file.display(),
                                name,
                                "shape",
                                shape_text(wanted.shape),
                                shape_text(tensor.shape),
                                "is it of another predictor?",
                                {}});
      }
      return tensor;
    }
    throw checkpoint_error({file.display(), name, "missing", "", "", "is it of another predictor?", {}});
  }

  static void read_tensor(const SafetensorsFile& file, const std::string& name, const PredictorTensor& wanted,
                          float* out) {
    const TensorInfo& tensor = find_tensor(file, name, wanted);
    file.file().pread_exact(tensor.offset, out, tensor.bytes);
    for (size_t i = 0; i < wanted.count; ++i) {
      if (std::isfinite(out[i])) continue;
      throw checkpoint_error({file.display(),
                              name,
                              "element " + std::to_string(i),
                              "a finite number",
                              std::to_string(out[i]),
                              "train the predictor again",
                              {}});
    }
  }

  static void check_digest(const SafetensorsFile& file, const std::string& digest) {
    std::string bytes(file.file().size(), '\0');
    file.file().pread_exact(0, bytes.data(), bytes.size());
    const std::string found = sha256_of(bytes);
    if (found == digest) return;
    throw checkpoint_error({file.display(), "", "sha256", digest, found, "the file was changed or damaged", {}});
  }

  Error fault(const std::string& what, const std::string& expected, const std::string& found,
              const std::string& hint = "") const {
    return checkpoint_error({path_, "", what, expected, found, hint, {}});
  }

  std::string directory_;
  std::string path_;
  JsonDocument document_;
  JsonValue root_;
};

// The files that the current config names; empty where no config can be read.
std::vector<std::string> named_files(const std::string& directory) {
  std::vector<std::string> files;
  struct stat status;
  if (::stat(config_path(directory).c_str(), &status) != 0) return files;
  try {
    const std::string path = config_path(directory);
    const JsonDocument document =
        JsonDocument::parse(read_model_file(directory, kConfig, kMaxConfigBytes), {path, "checkpoint_invalid"});
    for (const auto& [kind, name] : {std::pair{"predictor", "weights_sha256"}, {"optimizer", "optimizer_sha256"}}) {
      const auto value = document.root().find(name);
      const auto digest = value ? value->try_string() : std::nullopt;
      if (digest && digest->find_first_not_of("0123456789abcdef") == std::string::npos) {
        files.push_back(tensor_path(directory, kind, *digest));
      }
    }
  } catch (const Error&) {
    // A config that cannot be read names no files, and it is about to be replaced.
  }
  return files;
}

}  // namespace

void save_predictor(const std::string& directory, const PredictorWeights& weights, const AdamWState* optimizer) {
  const std::vector<std::string> before = named_files(directory);
  std::vector<SafetensorsTensor> tensors;
  list_tensors(weights.layout, "", weights.values.data(), &tensors);
  const std::string weights_sha256 = write_tensors(directory, "predictor", tensors);
  std::string optimizer_sha256;
  if (optimizer != nullptr) {
    tensors.clear();
    list_tensors(weights.layout, "mean.", optimizer->mean.data(), &tensors);
    list_tensors(weights.layout, "square.", optimizer->square.data(), &tensors);
    optimizer_sha256 = write_tensors(directory, "optimizer", tensors);
  }
  write_file_atomically(config_path(directory), config_text(weights.layout.config(), weights_sha256, optimizer_sha256,
                                                            optimizer != nullptr ? optimizer->steps : 0));
  const std::vector<std::string> after = named_files(directory);
  for (const std::string& path : before) {
    bool kept = false;
    for (const std::string& other : after) kept = kept || other == path;
    if (!kept) ::unlink(path.c_str());
  }
}

PredictorCheckpoint load_predictor(const std::string& directory, bool with_optimizer) {
  const CheckpointReader reader(directory);
  const PredictorLayout layout(reader.config());
  reader.check("predictor", "weights_sha256", layout, {""});
  PredictorCheckpoint result{PredictorWeights(layout.config()), std::nullopt};
  reader.read("predictor", "weights_sha256", layout, {{"", result.weights.values.data()}});
  if (with_optimizer && reader.has_optimizer()) {
    reader.check("optimizer", "optimizer_sha256", layout, {"mean.", "square."});
    AdamWState state(layout.count());
    state.steps = reader.optimizer_steps();
    reader.read("optimizer", "optimizer_sha256", layout,
                {{"mean.", state.mean.data()}, {"square.", state.square.data()}});
    result.optimizer = std::move(state);
  }
  return result;
}

}  // namespace sida
