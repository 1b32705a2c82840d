#include "predictor/predictor_checkpoint.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "checkpoint/safetensors_file.h"
#include "core/error.h"
#include "doctest/doctest.h"
#include "support/repo_paths.h"

namespace sida {
namespace {

using testing::TempDir;
namespace fs = std::filesystem;

constexpr PredictorConfig kConfig = {
    .d_in = 6, .hidden = 5, .layers = 2, .experts = 4, .causal = true, .summary = true};

PredictorWeights some_weights(uint64_t seed = 1, const PredictorConfig& config = kConfig) {
  PredictorWeights weights(config);
  weights.initialize(seed);
  return weights;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

fs::path file_of(const std::string& directory, const std::string& kind) {
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().filename().string().starts_with(kind + "-")) return entry.path();
  }
  return {};
}

std::string load_fault(const std::string& directory) {
  try {
    load_predictor(directory, true);
  } catch (const Error& error) {
    return error.code() + ": " + error.what();
  }
  return "none";
}

bool begins(const std::string& text, const std::string& start) { return text.starts_with(start); }
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("predictor checkpoint: what is loaded is what was saved, bit for bit") {
  PredictorConfig both_ways = kConfig;
  both_ways.causal = false;
  both_ways.hidden = 6;
  both_ways.bidirectional = true;
  PredictorConfig plain = kConfig;
  plain.summary = false;
  PredictorConfig blocks = kConfig;
  blocks.hidden = 16;
  blocks.blocks = 4;
  PredictorConfig variant = kConfig;
  variant.lstm_layers = 1;
  variant.attention_weights = WeightFunction::kSoftmax;
  for (const PredictorConfig& config : {kConfig, plain, both_ways, blocks, variant}) {
    TempDir directory;
    const PredictorWeights weights = some_weights(3, config);
    save_predictor(directory.path(), weights, nullptr);
    const PredictorCheckpoint loaded = load_predictor(directory.path(), true);
    CHECK(loaded.weights.layout.config() == config);
    CHECK(same_bits(loaded.weights.values, weights.values));
    CHECK_FALSE(loaded.optimizer.has_value());
  }
}

TEST_CASE("predictor checkpoint: the optimizer's state comes back where it is asked for") {
  TempDir directory;
  const PredictorWeights weights = some_weights();
  AdamWState state(weights.values.size());
  state.steps = 12345678901;
  state.mean = some_weights(7).values;
  state.square = some_weights(8).values;
  save_predictor(directory.path(), weights, &state);
  CHECK_FALSE(load_predictor(directory.path(), false).optimizer.has_value());
  const PredictorCheckpoint loaded = load_predictor(directory.path(), true);
  REQUIRE(loaded.optimizer.has_value());
  CHECK(loaded.optimizer->steps == state.steps);
  CHECK(same_bits(loaded.optimizer->mean, state.mean));
  CHECK(same_bits(loaded.optimizer->square, state.square));
}

TEST_CASE("predictor checkpoint: the weights are a sound safetensors file with the layout's names") {
  TempDir directory;
  save_predictor(directory.path(), some_weights(), nullptr);
  const SafetensorsFile file = SafetensorsFile::open(file_of(directory.path(), "predictor"));
  const PredictorLayout layout(kConfig);
  size_t next = 0;
  for (const PredictorTensor& tensor : layout.tensors()) {
    if (tensor.count == 0) continue;
    REQUIRE(next < file.tensors().size());
    CHECK(file.tensors()[next].name == tensor.name);
    CHECK(file.tensors()[next++].shape == tensor.shape);
  }
  CHECK(next == file.tensors().size());
}

TEST_CASE("predictor checkpoint: a later save replaces the earlier and leaves nothing behind") {
  TempDir directory;
  AdamWState state(some_weights().values.size());
  save_predictor(directory.path(), some_weights(1), &state);
  save_predictor(directory.path(), some_weights(2), nullptr);
  save_predictor(directory.path(), some_weights(2), nullptr);
  CHECK(same_bits(load_predictor(directory.path(), true).weights.values, some_weights(2).values));
  CHECK(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()) == 2);
}

TEST_CASE("predictor checkpoint: a save that stopped halfway leaves the old predictor") {
  TempDir directory;
  save_predictor(directory.path(), some_weights(1), nullptr);
  write(directory.path() + "/predictor.json.partial", "{\"version\": 2,");
  write(directory.path() + "/predictor-0123456789abcdef.safetensors", "half");
  CHECK(same_bits(load_predictor(directory.path(), true).weights.values, some_weights(1).values));
  save_predictor(directory.path(), some_weights(2), nullptr);
  CHECK(same_bits(load_predictor(directory.path(), true).weights.values, some_weights(2).values));
}

TEST_CASE("predictor checkpoint: damage is refused with a typed error that names the file") {
  TempDir directory;
  const std::string& path = directory.path();
  CHECK(begins(load_fault(path), "checkpoint_invalid: "));

  const auto fault_after = [&](const std::string& kind, const auto& change) {
    AdamWState state(some_weights().values.size());
    save_predictor(path, some_weights(), &state);
    const fs::path file = kind == "config" ? fs::path(path + "/predictor.json") : file_of(path, kind);
    std::string bytes = read(file);
    change(&bytes);
    write(file, bytes);
    const std::string fault = load_fault(path);
    CHECK(has(fault, file.filename().string()));
    CHECK(begins(fault, "checkpoint_invalid: "));
    write(file, "");
    fs::remove_all(file);
    return fault;
  };
  const auto replace = [](const std::string& from, const std::string& to) {
    return [from, to](std::string* bytes) {
      REQUIRE(has(*bytes, from));
      bytes->replace(bytes->find(from), from.size(), to);
    };
  };
  // One flipped bit of a weight and of a moment, a cut, an empty file.
  for (const std::string kind : {"predictor", "optimizer"}) {
    CHECK(has(fault_after(kind, [](std::string* bytes) { bytes->back() ^= 1; }), "sha256"));
    fault_after(kind, [](std::string* bytes) { bytes->resize(bytes->size() - 4); });
    fault_after(kind, [](std::string* bytes) { bytes->clear(); });
  }
  // Config: no JSON, other versions and kinds, sizes of another predictor, sizes out of range.
  fault_after("config", [](std::string* bytes) { bytes->resize(bytes->size() / 2); });
  fault_after("config", [](std::string* bytes) { *bytes = "[]"; });
  CHECK(has(fault_after("config", replace("\"version\": 2", "\"version\": 1")), "expected 2, found 1"));
  CHECK(has(fault_after("config", replace("\"lstm\"", "\"gru\"")), "\"lstm\" or \"attention\""));
  CHECK(has(fault_after("config", replace("\"lstm\"", "\"attention\"")), "blocks"));
  fault_after("config", replace("\"hidden\": 5", "\"hidden\": 0"));
  fault_after("config", replace("\"hidden\": 5", "\"hidden\": -5"));
  fault_after("config", replace("\"hidden\": 5", "\"hidden\": 99999999"));
  fault_after("config", replace("\"experts\": 4", "\"expert\": 4"));
  fault_after("config", replace("\"causal\": true", "\"causal\": 1"));
  fault_after("config", replace("\"lstm_layers\": 2", "\"lstm_layers\": 3"));
  fault_after("config", replace("\"lstm_layers\": 2", "\"lstm_layers\": 0"));
  CHECK(has(fault_after("config", replace("\"sparsemax\"", "\"entmax\"")), "\"sparsemax\" or \"softmax\""));
  const auto as_blocks = [](const std::string& blocks) {
    return [blocks](std::string* bytes) {
      for (const auto& [from, to] : {std::pair<std::string, std::string>{"\"lstm\"", "\"attention\""},
                                     {"\"lstm_layers\": 2", "\"blocks\": " + blocks}}) {
        REQUIRE(has(*bytes, from));
        bytes->replace(bytes->find(from), from.size(), to);
      }
    };
  };
  fault_after("config", as_blocks("0"));
  fault_after("config", as_blocks("5"));
  CHECK(has(fault_after("config", as_blocks("1")), "multiple of 16"));
  CHECK(has(fault_after("config", replace("\"bidirectional\": false", "\"bidirectional\": true")), "causal"));
  fault_after("config", replace("\"weights_sha256\": \"", "\"weights_sha256\": \"../"));
}

TEST_CASE("predictor checkpoint: weights of another shape, missing, or not finite are refused") {
  TempDir directory;
  const std::string& path = directory.path();
  const auto fault_with = [&](const std::string& from, const std::string& to) {
    save_predictor(path, some_weights(), nullptr);
    std::string config = read(path + "/predictor.json");
    REQUIRE(has(config, from));
    config.replace(config.find(from), from.size(), to);
    write(path + "/predictor.json", config);
    const std::string fault = load_fault(path);
    CHECK(begins(fault, "checkpoint_invalid: "));
    return fault;
  };
  CHECK(has(fault_with("\"experts\": 4", "\"experts\": 8"), "expected [2, 8, 5], found [2, 4, 5]"));
  CHECK(has(fault_with("\"summary\": true", "\"summary\": false"), "expected 12, found 13"));

  PredictorWeights weights = some_weights();
  weights.values[17] = std::numeric_limits<float>::quiet_NaN();
  save_predictor(path, weights, nullptr);
  CHECK(has(load_fault(path), "expected a finite number"));
  fs::remove(file_of(path, "predictor"));
  CHECK(begins(load_fault(path), "checkpoint_invalid: "));
}

TEST_CASE("predictor checkpoint: a directory that cannot be written is an io_error") {
  try {
    save_predictor("/proc/no-such-directory", some_weights(), nullptr);
    FAIL("saved");
  } catch (const Error& error) {
    CHECK(error.code() == "io_error");
  }
}

}  // namespace
}  // namespace sida
