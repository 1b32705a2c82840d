#include "model/switch_config.h"

#include <cstdint>
#include <optional>

#include "checkpoint/checkpoint_error.h"
#include "core/file.h"
#include "core/json.h"

namespace sida {
namespace {

constexpr uint64_t kMaxConfigBytes = 16 << 20;

// With these, all experts together are below 2^62 bytes, and expert numbers and flat ids fit their types.
constexpr int kMaxVocab = 1 << 24;
constexpr int kMaxWidth = 1 << 16;
constexpr int kMaxFf = 1 << 18;
constexpr int kMaxLayers = 256;
constexpr int kMaxExperts = 65535;
constexpr int kMaxCount = 1 << 30;

class ConfigReader {
 public:
  ConfigReader(JsonValue root, const std::string& file) : root_(root), file_(file) {}

  std::optional<JsonValue> field(const char* name) const {
    const auto value = root_.find(name);
    return value && !value->is_null() ? value : std::nullopt;
  }

  bool is_null(const char* name) const {
    const auto value = root_.find(name);
    return value && value->is_null();
  }

  int integer(const char* name, int least, int most, int fallback) const {
    const auto value = field(name);
    if (!value) return fallback;
    const std::string range = std::to_string(least) + " to " + std::to_string(most);
    const std::string expected = "a whole number from " + range;
    const auto number = value->try_i64();
    if (!number) throw fault(name, expected, value->describe(), "");
    if (*number < least || *number > most) {
      throw fault(name, expected, value->describe(), "",
                  {{"least", least}, {"most", most}, {"found", static_cast<double>(*number)}});
    }
    return static_cast<int>(*number);
  }

  double real(const char* name, double least, double most, double fallback) const {
    const auto value = field(name);
    if (!value) return fallback;
    const auto number = value->try_double();
    if (number && *number >= least && *number <= most) return *number;
    throw fault(name, "a number from " + std::to_string(least) + " to " + std::to_string(most),
                value->describe(), "");
  }

  bool boolean(const char* name, bool fallback) const {
    const auto value = field(name);
    if (!value) return fallback;
    if (const auto flag = value->try_bool()) return *flag;
    throw fault(name, "true or false", value->describe(), "");
  }

  // A token id, -1 where it is null.
  int token(const char* name, int vocab_size, int fallback) const {
    return is_null(name) ? -1 : integer(name, 0, vocab_size - 1, fallback);
  }

  void require_text(const char* name, const char* only, const char* fallback, const char* hint) const {
    const auto value = field(name);
    if (!value && fallback != nullptr) return;
    const std::string found = value ? value->describe() : "none";
    if (value && value->try_string() == only) return;
    throw fault(name, "\"" + std::string(only) + "\"", found, hint);
  }

  void require_false(const char* name, const char* hint) const {
    if (boolean(name, false)) throw fault(name, "false", "true", hint);
  }

  Error fault(const char* name, const std::string& expected, const std::string& found,
              const std::string& hint, std::map<std::string, double> numbers = {}) const {
    return checkpoint_error(
        {file_, "", "\"" + std::string(name) + "\"", expected, found, hint, std::move(numbers)});
  }

 private:
  JsonValue root_;
  const std::string& file_;
};

void check_kind(const ConfigReader& reader) {
  reader.require_text("model_type", "switch_transformers", nullptr,
                      "only Switch Transformers checkpoints are supported");
  reader.require_text("dense_act_fn", "relu", "relu", "gated feed-forward layers are not supported");
  reader.require_text("router_dtype", "float32", "float32", "routers run in float32");
  reader.require_false("router_bias", "a bias in the router is not supported");
  reader.require_false("router_ignore_padding_tokens", "padding takes part in routing");
}

void read_layers(const ConfigReader& reader, SwitchConfig* config) {
  config->num_layers = reader.integer("num_layers", 1, kMaxLayers, config->num_layers);
  // Transformers makes a missing decoder 12 layers deep and a null one as deep as the encoder.
  const bool null_decoder = reader.is_null("num_decoder_layers");
  config->num_decoder_layers = reader.integer("num_decoder_layers", 1, kMaxLayers,
                                              null_decoder ? config->num_layers : config->num_decoder_layers);
  // Without sparse layers transformers takes a step as long as the stack, which leaves layer 1 sparse.
  const auto step = [](int layers, int sparse) { return sparse > 0 ? layers / sparse : layers; };
  config->num_sparse_encoder_layers =
      reader.integer("num_sparse_encoder_layers", 0, config->num_layers, config->num_sparse_encoder_layers);
  config->num_sparse_decoder_layers = reader.integer(
      "num_sparse_decoder_layers", 0, config->num_decoder_layers, config->num_sparse_decoder_layers);
  // A step in the file wins, as it does in transformers.
  const int encoder_step = step(config->num_layers, config->num_sparse_encoder_layers);
  const int decoder_step = step(config->num_decoder_layers, config->num_sparse_decoder_layers);
  config->encoder_sparse_step = reader.integer("encoder_sparse_step", 0, kMaxLayers, encoder_step);
  config->decoder_sparse_step = reader.integer("decoder_sparse_step", 0, kMaxLayers, decoder_step);
}

void read_attention(const ConfigReader& reader, SwitchConfig* config) {
  config->d_kv = reader.integer("d_kv", 1, kMaxWidth, config->d_kv);
  config->num_heads = reader.integer("num_heads", 1, kMaxWidth / config->d_kv, config->num_heads);
  // The encoder halves the buckets by sign and again by exactness.
  config->relative_attention_num_buckets =
      reader.integer("relative_attention_num_buckets", 4, 4096, config->relative_attention_num_buckets);
  // The logarithm of distance over exact buckets is divided by.
  const int least = config->relative_attention_num_buckets / 2 + 1;
  config->relative_attention_max_distance = reader.integer(
      "relative_attention_max_distance", least, kMaxCount, config->relative_attention_max_distance);
}

void read_tokens(const ConfigReader& reader, SwitchConfig* config) {
  config->pad_token_id = reader.token("pad_token_id", config->vocab_size, config->pad_token_id);
  config->eos_token_id = reader.token("eos_token_id", config->vocab_size, config->eos_token_id);
  const int fallback = config->pad_token_id;
  config->decoder_start_token_id =
      reader.integer("decoder_start_token_id", 0, config->vocab_size - 1, fallback);
  if (config->decoder_start_token_id < 0) {
    throw reader.fault("decoder_start_token_id", "a token id", "none, nor a pad_token_id", "");
  }
}

bool is_sparse(int layer, int step) { return step == 1 || (step > 1 && layer % step == 1); }

}  // namespace

bool SwitchConfig::encoder_sparse(int layer) const { return is_sparse(layer, encoder_sparse_step); }

bool SwitchConfig::decoder_sparse(int layer) const { return is_sparse(layer, decoder_sparse_step); }

std::vector<std::string> SwitchConfig::moe_layers() const {
  std::vector<std::string> layers;
  for (int i = 0; i < num_layers; ++i) {
    if (encoder_sparse(i)) layers.push_back("encoder." + std::to_string(i));
  }
  for (int i = 0; i < num_decoder_layers; ++i) {
    if (decoder_sparse(i)) layers.push_back("decoder." + std::to_string(i));
  }
  return layers;
}

SwitchConfig parse_switch_config(std::string_view text, const std::string& file) {
  const JsonDocument document = JsonDocument::parse(std::string(text), {file, "checkpoint_invalid"});
  if (!document.root().is_object()) {
    throw checkpoint_error({file, "", "not a config", "an object", document.root().describe(), "", {}});
  }
  const ConfigReader reader(document.root(), file);
  check_kind(reader);
  SwitchConfig config;
  config.vocab_size = reader.integer("vocab_size", 1, kMaxVocab, config.vocab_size);
  config.d_model = reader.integer("d_model", 1, kMaxWidth, config.d_model);
  config.d_ff = reader.integer("d_ff", 1, kMaxFf, config.d_ff);
  config.num_experts = reader.integer("num_experts", 1, kMaxExperts, config.num_experts);
  config.expert_capacity = reader.integer("expert_capacity", 1, kMaxCount, config.expert_capacity);
  config.layer_norm_epsilon = static_cast<float>(reader.real("layer_norm_epsilon", 0, 1, 1e-6));
  config.tie_word_embeddings = reader.boolean("tie_word_embeddings", true);
  read_attention(reader, &config);
  read_layers(reader, &config);
  read_tokens(reader, &config);
  return config;
}

SwitchConfig load_switch_config(const std::string& path) {
  return parse_switch_config(read_text_file(path, kMaxConfigBytes), path);
}

}  // namespace sida
