#pragma once

#include <charconv>

#include "spec/model_config.h"
#include "support/test.h"

namespace sida::testing {

/// A family's config of these fields alone.
inline ModelSpec parse_family(const std::string& family, const std::string& fields = "") {
  const std::string text = R"({"model_type":")" + family + '"' + (fields.empty() ? "" : "," + fields) + "}";
  return parse_model_config(text, "config.json").spec;
}

inline const AttentionSpec& attention_of(const ModelSpec& spec) { return spec.stacks[0].layers[0].self; }
inline const Rope& rope_of(const ModelSpec& spec) { return std::get<Rope>(spec.stacks[0].positions); }

/// Everything that a config decides, in words between blanks. Each layer is a d (dense) or an s (sparse).
class Description {
 public:
  explicit Description(const ModelSpec& spec) {
    out_ << " vocab " << spec.vocab << " width " << spec.width
         << (spec.norm == NormKind::kRms ? " rms " : " layer-norm ") << exact(spec.norm_epsilon) << " context "
         << spec.context
         << (!spec.head.present ? " headless"
             : spec.head.tied   ? " tied"
                                : " untied");
    flag("embedding-biased", spec.embedding_biased);
    flag("sums-from-norms", spec.sums_from_norms);
    say("embedding-scale", spec.embedding_scale, 1.0f);
    say("head-scale", spec.head.scale, 1.0f);
    if (spec.head.cap) out_ << " cap " << exact(*spec.head.cap);
    say("extra-layers", spec.extra_layers, size_t{0});
    if (spec.tokens.start) out_ << " start " << *spec.tokens.start;
    for (const int32_t id : spec.tokens.end) out_ << " end " << id;
    if (spec.tokens.pad) out_ << " pad " << *spec.tokens.pad;
    for (const StackSpec& stack : spec.stacks) add(stack);
    if (spec.moe() != nullptr) add(*spec.moe());
  }
  std::string text() const { return out_.str() + " "; }

 private:
  /// The shortest number that reads back as this one.
  template <class T>
  static std::string exact(T value) {
    char text[32];
    return {text, std::to_chars(text, std::end(text), value).ptr};
  }
  template <class T>
  void say(const char* name, T value, T usual) {
    if (value != usual) out_ << " " << name << " " << exact(value);
  }
  void flag(const char* name, bool set) {
    if (set) out_ << " " << name;
  }

  void add(const StackSpec& stack) {
    out_ << " | " << stack.name << (stack.causal ? " causal " : " ");
    std::vector<size_t> windows;
    std::string kinds, dense, rules;
    for (const LayerSpec& layer : stack.layers) {
      kinds += layer.moe() == nullptr ? "d" : "s";
      rules += layer.delta ? "r" : "a";
      windows.push_back(layer.self.window.value_or(0));
      if (layer.moe() == nullptr) dense = " dense" + network(std::get<FfnSpec>(layer.feed_forward));
    }
    // A long row of one kind at the end is counted.
    const size_t last = kinds.size() - (kinds.find_last_not_of(kinds.back()) + 1);
    out_ << (last < 9 ? kinds : kinds.substr(0, kinds.size() - last + 1) + std::to_string(last)) << dense;
    if (std::ranges::count(windows, 0) != static_cast<long>(windows.size())) {
      out_ << " windows";
      for (const size_t window : windows) out_ << " " << window;
    }
    flag("post-norms", stack.layers[0].post_norms);
    flag("scaled", stack.layers[0].scaled);
    add("attention", stack.attention());
    for (const LayerSpec& layer : stack.layers) {
      if (!layer.delta) continue;
      add(*layer.delta);
      out_ << " layers " << rules;
      break;
    }
    if (!stack.more_ropes.empty()) add("last-attention", stack.layers.back().self);
    if (stack.layers[0].cross) add("cross-attention", *stack.layers[0].cross);
    if (const auto* rope = std::get_if<Rope>(&stack.positions)) {
      out_ << " rope " << rope->width() << " frequency " << exact(rope->inverse_frequencies.at(1));
      say("magnitude", rope->magnitude, 1.0f);
      flag("adjacent", rope->adjacent);
      for (const Rope& other : stack.more_ropes) {
        out_ << " other-rope " << other.width() << " frequency " << exact(other.inverse_frequencies.at(1)) << " turned "
             << std::ranges::count_if(other.inverse_frequencies, [](float inverse) { return inverse != 0; });
      }
    } else if (const auto* bias = std::get_if<RelativeBias>(&stack.positions)) {
      out_ << " buckets " << bias->buckets << " distance " << bias->max_distance;
    } else {
      const auto& sines = std::get<Sinusoids>(stack.positions);
      out_ << " sines " << sines.frequencies.size() << " behind " << sines.pad;
    }
  }

  void add(const char* name, const AttentionSpec& attention) {
    out_ << " " << name << " heads " << attention.heads << " of " << attention.head_dim << " kv " << attention.kv_heads
         << " scale " << exact(attention.scale);
    flag("row-norms", attention.qk_norm == QkNorm::kRow);
    flag("head-norms", attention.qk_norm == QkNorm::kHead);
    flag("normed-values", attention.values == Values::kNormed);
    flag("values-of-keys", attention.values == Values::kNormedKeys);
    flag("biased", attention.biased);
    flag("output-biased", attention.output_biased);
    if (attention.clip) out_ << " clip " << exact(*attention.clip);
    flag("sinks", attention.sinks);
    flag("gated", attention.gated);
    if (!attention.latent) return;
    const LatentSpec& latent = *attention.latent;
    out_ << " latent " << latent.rank << " query " << latent.query_rank << " rotary " << latent.rotary << " values "
         << latent.value_dim << " epsilon " << exact(latent.norm_epsilon);
  }

  void add(const DeltaSpec& delta) {
    out_ << " delta keys " << delta.key_heads << " of " << delta.key_dim << " values " << delta.value_heads << " of "
         << delta.value_dim << " taps " << delta.taps;
    flag("tiled", delta.tiled);
  }

  void add(const MoeSpec& moe) {
    const char* const scores[] = {"softmax", "sigmoid", "softmax-of-chosen"};
    const char* const gates[] = {"", " by sigmoid", " by softmax"};
    out_ << " | experts " << moe.experts << " top " << moe.router.top_k << " "
         << scores[static_cast<size_t>(moe.router.scores)];
    flag("biased", moe.biased);
    flag("router-biased", moe.router.biased);
    flag("corrected", moe.router.corrected);
    flag("normalized", moe.router.normalized);
    say("factor", moe.router.scale, 1.0);
    const ExpertGroups& groups = moe.router.groups;
    if (groups.count > 1) out_ << " groups " << groups.count << " kept " << groups.kept << " by " << groups.best;
    say("capacity", moe.router.capacity, RouterSpec::kNoCapacity);
    if (moe.router.input_scale) out_ << " own-norm " << exact(*moe.router.input_scale);
    flag("weighted", moe.router.weighted);
    flag("branches", moe.branches);
    out_ << " expert" << network(moe.expert);
    if (moe.shared) out_ << " shared" << network(moe.shared->ffn) << gates[static_cast<size_t>(moe.shared->gate)];
  }

  static std::string network(const FfnSpec& ffn) {
    const char* const activations[] = {"relu", "gelu", "swiglu", "clamped-swiglu", "geglu"};
    return " " + std::to_string(ffn.width) + " " + activations[static_cast<size_t>(ffn.activation)] +
           (ffn.biased ? " biased" : "");
  }

  std::ostringstream out_;
};

inline std::string describe(const std::string& family, const std::string& fields = "") {
  return Description(parse_family(family, fields)).text();
}

struct RefusedFields {
  std::string fields;
  std::vector<std::string> parts;  ///< of the error
};

inline void check_refused(const std::string& family, const std::vector<RefusedFields>& rows) {
  for (const RefusedFields& row : rows) {
    CASE(family, row.fields);
    const std::string message = error_of([&] { parse_family(family, row.fields); });
    CHECK(message.find("config.json: ") == 0);
    check_has(message, row.parts);
  }
}

}  // namespace sida::testing
