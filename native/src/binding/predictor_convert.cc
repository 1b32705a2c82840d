#include "binding/predictor_convert.h"

#include <cmath>
#include <limits>

namespace sida {
namespace {

constexpr const char* kSparsemax = "sparsemax";
constexpr const char* kSoftmax = "softmax";

Error wanted(const char* name, const std::string& what) {
  return Error("invalid_request", std::string("expected \"") + name + "\" to be " + what);
}

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? std::to_string(static_cast<int64_t>(value))
                                                              : std::to_string(value);
}

float real_from_js(const Napi::Object& object, const char* name, double least) {
  return static_cast<float>(number_from_js(object, name, least, std::numeric_limits<float>::max()));
}

}  // namespace

Napi::Object object_from_js(const Napi::Value& value, const char* name) {
  if (!value.IsObject()) throw wanted(name, "an object");
  return value.As<Napi::Object>();
}

double number_from_js(const Napi::Object& object, const char* name, double least, double most) {
  const Napi::Value value = object.Get(name);
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : std::nan("");
  if (number >= least && number <= most) return number;
  throw Error("invalid_request",
              std::string("expected \"") + name + "\" to be a number from " + number_text(least) + " to " +
                  number_text(most) + ", found " + (value.IsNumber() ? number_text(number) : "none"),
              {{"least", least}, {"most", most}});
}

uint64_t whole_from_js(const Napi::Object& object, const char* name, uint64_t least, uint64_t most) {
  const double number = number_from_js(object, name, static_cast<double>(least), static_cast<double>(most));
  if (number != std::floor(number)) throw wanted(name, "a whole number, found " + number_text(number));
  return static_cast<uint64_t>(number);
}

bool flag_from_js(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsBoolean()) throw wanted(name, "true or false");
  return value.As<Napi::Boolean>().Value();
}

std::string text_from_js(const Napi::Object& object, const char* name) {
  const Napi::Value value = object.Get(name);
  if (!value.IsString()) throw wanted(name, "a text");
  return value.As<Napi::String>().Utf8Value();
}

PredictorInputCopy::PredictorInputCopy(const Napi::Object& js) {
  const auto copy = [&](const char* name) { return copy_from_js<int32_t>(js.Get(name), name); };
  tokens = copy("tokens");
  offsets = copy("offsets");
  context_tokens = copy("contextTokens");
  context_offsets = copy("contextOffsets");
}

PredictorConfig predictor_config_from_js(const Napi::Object& js) {
  constexpr uint64_t kMax = 1u << 31;  // PredictorConfig::check() applies the real limits
  PredictorConfig config;
  config.d_in = whole_from_js(js, "dIn", 1, kMax);
  config.hidden = whole_from_js(js, "hidden", 1, kMax);
  config.layers = whole_from_js(js, "layers", 1, kMax);
  config.experts = whole_from_js(js, "experts", 1, kMax);
  config.causal = flag_from_js(js, "causal");
  config.bidirectional = flag_from_js(js, "bidirectional");
  if (!js.Get("blocks").IsUndefined()) config.blocks = whole_from_js(js, "blocks", 0, kMaxPredictorBlocks);
  if (!js.Get("lstmLayers").IsUndefined()) config.lstm_layers = whole_from_js(js, "lstmLayers", 1, kMaxLstmLayers);
  if (!js.Get("attentionWeights").IsUndefined()) {
    const std::string weights = text_from_js(js, "attentionWeights");
    if (weights != kSparsemax && weights != kSoftmax) {
      throw wanted("attentionWeights", "sparsemax or softmax, found \"" + escape_text(weights) + "\"");
    }
    config.attention_weights = weights == kSoftmax ? WeightFunction::kSoftmax : WeightFunction::kSparsemax;
  }
  config.summary = flag_from_js(js, "summary");
  config.check();
  return config;
}

Napi::Object predictor_config_to_js(Napi::Env env, const PredictorConfig& config) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("dIn", static_cast<double>(config.d_in));
  js.Set("hidden", static_cast<double>(config.hidden));
  js.Set("layers", static_cast<double>(config.layers));
  js.Set("experts", static_cast<double>(config.experts));
  js.Set("causal", config.causal);
  js.Set("bidirectional", config.bidirectional);
  js.Set("summary", config.summary);
  js.Set("kind", config.kind() == NetworkKind::kLstm ? "lstm" : "attention");
  js.Set("blocks", static_cast<double>(config.blocks));
  js.Set("lstmLayers", static_cast<double>(config.lstm_layers));
  js.Set("attentionWeights", config.attention_weights == WeightFunction::kSoftmax ? kSoftmax : kSparsemax);
  return js;
}

TrainerOptions trainer_options_from_js(const Napi::Object& js) {
  TrainerOptions options;
  constexpr double kBelowOne = 1 - 1e-7;
  options.adamw.beta1 = static_cast<float>(number_from_js(js, "beta1", 0, kBelowOne));
  options.adamw.beta2 = static_cast<float>(number_from_js(js, "beta2", 0, kBelowOne));
  options.adamw.epsilon = real_from_js(js, "epsilon", 1e-30);
  options.adamw.weight_decay = real_from_js(js, "weightDecay", 0);
  options.loss.top = whole_from_js(js, "top", 1, kMaxTop);
  options.loss.lambda = real_from_js(js, "lambda", 0);
  if (!js.Get("sharpness").IsUndefined()) options.loss.sharpness = real_from_js(js, "sharpness", 0);
  options.loss.k = whole_from_js(js, "k", 1, kMaxTop);
  if (!js.Get("choices").IsUndefined()) options.loss.choices = whole_from_js(js, "choices", 1, kMaxTop);
  if (!js.Get("ranks").IsUndefined()) {
    const auto ranks = copy_from_js<int32_t>(js.Get("ranks"), "ranks");
    options.loss.ranks.assign(ranks.begin(), ranks.end());
  }
  const std::string distillation = text_from_js(js, "distillation");
  if (distillation == "kl") {
    options.loss.distillation = DistillationLoss::kKl;
  } else if (distillation == "none") {
    options.loss.distillation = DistillationLoss::kNone;
  } else {
    throw wanted("distillation", "kl or none, found \"" + escape_text(distillation) + "\"");
  }
  options.clip_norm = number_from_js(js, "clipNorm", 0, std::numeric_limits<double>::max());
  options.threads = whole_from_js(js, "threads", 1, kMaxPredictorThreads);
  return options;
}

Napi::Object report_to_js(Napi::Env env, const TrainingReport& report) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("loss", report.loss);
  js.Set("distillation", report.distillation);
  js.Set("crossEntropy", report.cross_entropy);
  js.Set("gradientNorm", report.gradient_norm);
  js.Set("applied", report.applied);
  Napi::Array layers = Napi::Array::New(env, report.layers.size());
  for (uint32_t l = 0; l < report.layers.size(); ++l) {
    Napi::Object layer = Napi::Object::New(env);
    layer.Set("tokens", static_cast<double>(report.layers[l].tokens));
    Napi::Array hits = Napi::Array::New(env, report.layers[l].hits.size());
    for (uint32_t i = 0; i < report.layers[l].hits.size(); ++i) {
      hits.Set(i, static_cast<double>(report.layers[l].hits[i]));
    }
    layer.Set("hits", hits);
    layers.Set(l, layer);
  }
  js.Set("layers", layers);
  return js;
}

ExclusiveUse::ExclusiveUse(bool* busy, const char* what) : busy_(busy) {
  if (*busy) throw Error("internal", std::string(what) + " is in the middle of a call");
  *busy = true;
}

}  // namespace sida
