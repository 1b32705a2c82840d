#include "binding/predictor_binding.h"

#include <utility>

#include "binding/convert.h"
#include "binding/predictor_embedding_binding.h"
#include "engine/devices.h"
#include "predictor/predictor_checkpoint.h"

namespace sida {
namespace {

constexpr const char* kName = "the predictor";

}  // namespace

Napi::Function PredictorBinding::define(Napi::Env env) {
  return DefineClass(
      env, "Predictor",
      {InstanceAccessor<&PredictorBinding::shape>("shape"), InstanceAccessor<&PredictorBinding::bytes>("bytes"),
       InstanceMethod<&PredictorBinding::predict>("predict"), InstanceMethod<&PredictorBinding::begin>("begin"),
       InstanceMethod<&PredictorBinding::fork>("fork"), InstanceMethod<&PredictorBinding::step>("step"),
       InstanceMethod<&PredictorBinding::end>("end"), InstanceMethod<&PredictorBinding::close>("close")});
}

PredictorBinding::PredictorBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const Napi::Object options = object_from_js(info[0], "options");
    auto embedding = PredictorEmbeddingBinding::of(options.Get("embedding"));
    const size_t threads = whole_from_js(options, "threads", 1, kMaxPredictorThreads);
    const std::string directory = text_from_js(options, "directory");
    const PredictorCheckpoint checkpoint = load_predictor(directory, false);
    const auto alpha = copy_from_js<float>(options.Get("alphaSharpness"), "alphaSharpness");
    const auto chance = copy_from_js<float>(options.Get("chanceSharpness"), "chanceSharpness");
    const auto layer_experts = copy_from_js<uint16_t>(options.Get("layerExperts"), "layerExperts");
    const size_t choices = options.Get("choices").IsUndefined() ? 1 : whole_from_js(options, "choices", 1, kMaxTop);
    const PredictorSharpness sharpness{alpha, chance, choices};
    const DeviceKind device = device_from_js(options.Get("device"));
    try {
      predictor_ = std::make_unique<Predictor>(checkpoint.weights, std::move(embedding), threads, sharpness,
                                               layer_experts, make_device_network(device, checkpoint.weights));
    } catch (const Error& error) {
      throw Error(error.code(), escape_text(directory) + ": " + error.what(), error.numbers());
    }
  });
}

Predictor& PredictorBinding::predictor() {
  if (!predictor_) throw Error("internal", "the predictor is closed");
  return *predictor_;
}

Napi::Value PredictorBinding::shape(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return predictor_config_to_js(info.Env(), predictor().config()); });
}

Napi::Value PredictorBinding::bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), static_cast<double>(predictor().bytes())); });
}

ExpertTable PredictorBinding::table_of(const Napi::CallbackInfo& info, size_t first, size_t tokens) {
  const PredictorConfig& config = predictor().config();
  const double k = info[first].IsNumber() ? info[first].As<Napi::Number>().DoubleValue() : 0;
  if (!(k >= 1 && k <= static_cast<double>(config.experts) && k == static_cast<double>(static_cast<size_t>(k)))) {
    throw Error(
        "invalid_request",
        "expected \"k\" to be a whole number from 1 to the " + std::to_string(config.experts) + " experts of a layer",
        {{"most", static_cast<double>(config.experts)}, {"found", k}});
  }
  ExpertTable table;
  table.k = static_cast<size_t>(k);
  const size_t rows = config.layers * tokens;
  table.experts = elements_of<uint16_t>(info[first + 1], "experts", rows * table.k).data();
  table.alpha = elements_of<float>(info[first + 2], "alpha", rows * table.k).data();
  if (!info[first + 3].IsUndefined()) {
    table.chance = elements_of<float>(info[first + 3], "chance", rows * table.k).data();
  }
  return table;
}

Napi::Value PredictorBinding::predict(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    predictor();
    const ExclusiveUse held(&busy_, kName);
    const PredictorInputCopy input(object_from_js(info[0], "input"));
    const size_t tokens = input.tokens.size();
    ExpertTable table = table_of(info, 1, tokens);
    if (!info[5].IsUndefined()) {
      const PredictorConfig& config = predictor().config();
      table.logits = elements_of<float>(info[5], "logits", config.layers * tokens * config.experts).data();
    }
    return Napi::Boolean::New(info.Env(), predictor().predict(input.view(), table));
  });
}

void PredictorBinding::begin(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kName);
    const auto context_tokens = copy_from_js<int32_t>(info[1], "contextTokens");
    const auto context_offsets = copy_from_js<int32_t>(info[2], "contextOffsets");
    predictor().begin(elements_of<int32_t>(info[0], "ids"), context_tokens, context_offsets);
  });
}

void PredictorBinding::fork(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    predictor();
    const ExclusiveUse held(&busy_, kName);
    predictor().fork(elements_of<int32_t>(info[0], "from"), elements_of<int32_t>(info[1], "ids"));
  });
}

Napi::Value PredictorBinding::step(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    predictor();
    const ExclusiveUse held(&busy_, kName);
    const std::span<const int32_t> ids = elements_of<int32_t>(info[0], "ids");
    const std::span<const int32_t> tokens = elements_of<int32_t>(info[1], "tokens");
    const ExpertTable table = table_of(info, 2, ids.size());
    return Napi::Boolean::New(info.Env(), predictor().step(ids, tokens, table));
  });
}

void PredictorBinding::end(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kName);
    predictor().end(elements_of<int32_t>(info[0], "ids"));
  });
}

void PredictorBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kName);
    predictor_.reset();
  });
}

}  // namespace sida
