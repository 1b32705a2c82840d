#include "predictor/predictor_checkpoint.h"

#include "checkpoint/safetensors_file.h"
#include "support/test.h"

namespace {

namespace fs = std::filesystem;

constexpr PredictorConfig kConfig = {
    .d_in = 6, .hidden = 5, .layers = 2, .experts = 4, .causal = true, .summary = true};

PredictorWeights some_weights(uint64_t seed = 1, const PredictorConfig& config = kConfig) {
  PredictorWeights weights(config);
  weights.initialize(seed);
  return weights;
}

void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// A directory with predictors.
struct Saved {
  TempDir directory;
  const std::string& path = directory.path();

  void save(const PredictorWeights& weights, const AdamWState* state = nullptr) {
    save_predictor(path, weights, state);
  }
  PredictorCheckpoint load(bool optimizer = true) const { return load_predictor(path, optimizer); }
  std::string file(const std::string& kind) const {
    for (const auto& entry : fs::directory_iterator(path)) {
      if (entry.path().filename().string().starts_with(kind)) return entry.path();
    }
    return {};
  }
  /// Why a predictor is refused after `change` of the file whose name begins so.
  std::string fault_after(const std::string& kind, const std::function<void(std::string*)>& change) {
    AdamWState state(some_weights().values.size());
    save(some_weights(), &state);
    const std::string changed = file(kind);
    std::string bytes = read_text_file(changed);
    change(&bytes);
    write(changed, bytes);
    const std::string fault = error_of([&] { load(); });
    fs::remove(changed);
    return fault;
  }
};

TEST_CASE("predictor checkpoint: what is loaded is what was saved, bit for bit") {
  for (int form = 0; form < 5; ++form) {
    PredictorConfig config = kConfig;
    if (form == 1) config.causal = false, config.hidden = 6, config.bidirectional = true;
    if (form == 2) config.summary = false;
    if (form == 3) config.hidden = 16, config.blocks = 4;
    if (form == 4) config.lstm_layers = 1, config.attention_weights = WeightFunction::kSoftmax;
    Saved saved;
    saved.save(some_weights(3, config));
    const PredictorCheckpoint loaded = saved.load();
    CHECK(loaded.weights.layout.config() == config);
    CHECK(same_bits(loaded.weights.values, some_weights(3, config).values));
    CHECK_FALSE(loaded.optimizer.has_value());
  }
}

TEST_CASE("predictor checkpoint: the optimizer's state comes back where it is asked for") {
  Saved saved;
  AdamWState state(some_weights().values.size());
  state.steps = 12345678901;
  state.mean = some_weights(7).values;
  state.square = some_weights(8).values;
  saved.save(some_weights(), &state);
  CHECK_FALSE(saved.load(false).optimizer.has_value());
  const PredictorCheckpoint loaded = saved.load();
  REQUIRE(loaded.optimizer.has_value());
  CHECK(loaded.optimizer->steps == state.steps);
  CHECK(same_bits(loaded.optimizer->mean, state.mean));
  CHECK(same_bits(loaded.optimizer->square, state.square));
}

TEST_CASE("predictor checkpoint: the weights are a sound safetensors file with the layout's names") {
  Saved saved;
  saved.save(some_weights());
  const SafetensorsFile file = SafetensorsFile::open(saved.file("predictor-"));
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

TEST_CASE("predictor checkpoint: a save replaces the last and leaves nothing behind; one that stopped leaves the old") {
  Saved saved;
  AdamWState state(some_weights().values.size());
  const auto holds = [&](uint64_t seed) { return same_bits(saved.load().weights.values, some_weights(seed).values); };
  saved.save(some_weights(1), &state);
  for (int i = 0; i < 2; ++i) saved.save(some_weights(2));
  CHECK(holds(2));
  CHECK(std::distance(fs::directory_iterator(saved.path), fs::directory_iterator()) == 2);
  write(saved.path + "/predictor.json.partial", "{\"version\": 2,");
  write(saved.path + "/predictor-0123456789abcdef.safetensors", "half");
  CHECK(holds(2));
  saved.save(some_weights(1));
  CHECK(holds(1));
}

TEST_CASE("predictor checkpoint: damage is refused with a typed error that names the file") {
  Saved saved;
  error_of([&] { saved.load(); });
  // One flipped bit of a weight and of a moment, a cut, an empty file.
  for (const std::string kind : {"predictor-", "optimizer-"}) {
    check_has(saved.fault_after(kind, [](std::string* bytes) { bytes->back() ^= 1; }), {kind, "sha256"});
    check_has(saved.fault_after(kind, [](std::string* bytes) { bytes->resize(bytes->size() - 4); }), {kind});
    check_has(saved.fault_after(kind, [](std::string* bytes) { bytes->clear(); }), {kind});
  }
  // Config: no JSON, other versions and kinds, sizes of another predictor, sizes out of range.
  const std::string config = "predictor.json";
  check_has(saved.fault_after(config, [](std::string* bytes) { bytes->resize(bytes->size() / 2); }), {config});
  check_has(saved.fault_after(config, [](std::string* bytes) { *bytes = "[]"; }), {config});
  using Changes = std::vector<std::pair<std::string, std::string>>;
  const auto refused = [&](const Changes& changes, const std::string& reason = "") {
    check_has(saved.fault_after(config,
                                [&](std::string* bytes) {
                                  for (const auto& [from, to] : changes) {
                                    REQUIRE(bytes->find(from) != std::string::npos);
                                    bytes->replace(bytes->find(from), from.size(), to);
                                  }
                                }),
              {config, reason});
  };
  const auto as_blocks = [](const std::string& blocks) {
    return Changes{{"\"lstm\"", "\"attention\""}, {"\"lstm_layers\": 2", "\"blocks\": " + blocks}};
  };
  refused({{"\"version\": 2", "\"version\": 1"}}, "expected 2, found 1");
  refused({{"\"lstm\"", "\"gru\""}}, "\"lstm\" or \"attention\"");
  refused({{"\"lstm\"", "\"attention\""}}, "blocks");
  for (const std::string hidden : {"0", "-5", "99999999"}) refused({{"\"hidden\": 5", "\"hidden\": " + hidden}});
  refused({{"\"experts\": 4", "\"expert\": 4"}});
  refused({{"\"causal\": true", "\"causal\": 1"}});
  for (const std::string layers : {"3", "0"}) refused({{"\"lstm_layers\": 2", "\"lstm_layers\": " + layers}});
  refused({{"\"sparsemax\"", "\"entmax\""}}, "\"sparsemax\" or \"softmax\"");
  refused(as_blocks("0"));
  refused(as_blocks("5"));
  refused(as_blocks("1"), "multiple of 16");
  refused({{"\"bidirectional\": false", "\"bidirectional\": true"}}, "causal");
  refused({{"\"weights_sha256\": \"", "\"weights_sha256\": \"../"}});
}

TEST_CASE("predictor checkpoint: weights of another shape, missing, or not finite are refused") {
  Saved saved;
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& reason) {
    saved.save(some_weights());
    replace_in(saved.path + "/predictor.json", from, to);
    check_error([&] { saved.load(); }, {reason});
  };
  refused("\"experts\": 4", "\"experts\": 8", "expected [2, 8, 5], found [2, 4, 5]");
  refused("\"summary\": true", "\"summary\": false", "expected 12, found 13");
  PredictorWeights weights = some_weights();
  weights.values[17] = NAN;
  saved.save(weights);
  check_error([&] { saved.load(); }, {"expected a finite number"});
  fs::remove(saved.file("predictor-"));
  error_of([&] { saved.load(); });
}

TEST_CASE("predictor checkpoint: a directory that cannot be written is an io_error") {
  error_of([] { save_predictor("/proc/no-such-directory", some_weights(), nullptr); }, "io_error");
}

}  // namespace
