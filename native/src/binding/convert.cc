#include "binding/convert.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "weights/expert_shape.h"

namespace sida {

Napi::Error to_js_error(Napi::Env env, const std::exception& error) {
  Napi::Error js = Napi::Error::New(env, error.what());
  const auto* typed = dynamic_cast<const Error*>(&error);
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  js.Set("code", Napi::String::New(env, typed != nullptr ? typed->code() : no_memory ? "out_of_memory" : "internal"));
  if (typed != nullptr && !typed->numbers().empty()) {
    Napi::Object details = Napi::Object::New(env);
    for (const auto& [name, value] : typed->numbers()) details.Set(name, value);
    js.Set("details", details);
  }
  return js;
}

namespace {

Napi::Value number_or_null(Napi::Env env, std::optional<double> number) {
  return number ? Napi::Number::New(env, *number) : env.Null();
}

Napi::Object stack_to_js(Napi::Env env, const StackSpec& stack) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("name", stack.name);
  js.Set("layers", static_cast<double>(stack.layers.size()));
  Napi::Array moe_layers = Napi::Array::New(env);
  for (size_t i = 0; i < stack.layers.size(); ++i) {
    if (stack.layers[i].moe() != nullptr) moe_layers.Set(moe_layers.Length(), static_cast<double>(i));
  }
  js.Set("moeLayers", moe_layers);
  js.Set("causal", stack.causal);
  js.Set("crosses", stack.layers.front().cross.has_value());
  return js;
}

Napi::Object tokens_to_js(Napi::Env env, const TokenSpec& tokens) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("start", number_or_null(env, tokens.start));
  Napi::Array end = Napi::Array::New(env);
  for (const int32_t token : tokens.end) end.Set(end.Length(), token);
  js.Set("end", end);
  js.Set("pad", number_or_null(env, tokens.pad));
  return js;
}

}  // namespace

Napi::Object shape_to_js(Napi::Env env, const ModelSpec& spec) {
  Napi::Object shape = Napi::Object::New(env);
  const auto set = [&](const char* name, size_t value) { shape.Set(name, static_cast<double>(value)); };
  shape.Set("family", spec.family);
  set("vocabSize", spec.vocab);
  set("width", spec.width);
  const AttentionSpec& attention = spec.last().attention();
  set("heads", attention.heads);
  set("kvHeads", attention.kv_heads);
  set("headDim", attention.head_dim);
  Napi::Array stacks = Napi::Array::New(env);
  for (const StackSpec& stack : spec.stacks) stacks.Set(stacks.Length(), stack_to_js(env, stack));
  shape.Set("stacks", stacks);
  const MoeSpec* moe = spec.moe();
  set("experts", spec.experts());
  Napi::Array first_experts = Napi::Array::New(env);
  const ExpertShape experts = expert_shape_of(spec);
  for (size_t layer = 0; layer <= experts.layers; ++layer) {
    first_experts.Set(static_cast<uint32_t>(layer), static_cast<double>(experts.first_id(layer)));
  }
  shape.Set("firstExperts", first_experts);
  set("topK", spec.top_k());
  // A softmax over the chosen logits divides the softmax over all by the chosen ones' sum.
  shape.Set("normalized",
            moe != nullptr && (moe->router.normalized || moe->router.scores == RouterScores::kSoftmaxOfChosen));
  shape.Set("sigmoid", moe != nullptr && moe->router.scores == RouterScores::kSigmoid);
  set("expertWidth", moe == nullptr ? 0 : moe->expert.width);
  const bool capacity = moe != nullptr && moe->router.capacity != RouterSpec::kNoCapacity;
  shape.Set("expertCapacity",
            number_or_null(env, capacity ? std::optional(static_cast<double>(moe->router.capacity)) : std::nullopt));
  Napi::Array layers = Napi::Array::New(env);
  for (const std::string& layer : spec.moe_layers()) layers.Set(layers.Length(), layer);
  shape.Set("moeLayers", layers);
  shape.Set("tiedHead", spec.head.tied);
  const bool context = spec.context > 0;
  shape.Set("contextTokens",
            number_or_null(env, context ? std::optional(static_cast<double>(spec.context)) : std::nullopt));
  shape.Set("tokens", tokens_to_js(env, spec.tokens));
  return shape;
}

Napi::Object plan_to_js(Napi::Env env, const MemoryPlan& plan) {
  Napi::Object js = Napi::Object::New(env);
  const auto set = [&](const char* name, uint64_t value) { js.Set(name, static_cast<double>(value)); };
  set("driver", plan.driver);
  set("dense", plan.dense);
  set("routers", plan.routers);
  set("kvCache", plan.kv_cache);
  set("workspace", plan.workspace);
  set("hostWorkspace", plan.host_workspace);
  set("slot", plan.slot);
  set("block", plan.block);
  Napi::Array blocks = Napi::Array::New(env);
  for (const uint64_t bytes : plan.block_bytes) blocks.Set(blocks.Length(), static_cast<double>(bytes));
  js.Set("blockBytes", blocks);
  Napi::Array counts = Napi::Array::New(env);
  for (const size_t experts : plan.layer_experts) counts.Set(counts.Length(), static_cast<double>(experts));
  js.Set("layerExperts", counts);
  set("experts", plan.experts);
  set("fixed", plan.fixed());
  set("smallest", plan.smallest());
  set("resident", plan.resident());
  set("expertBytes", plan.slot * plan.experts);
  set("tokenDense", plan.token_dense);
  set("tokenDemand", plan.slot * plan.token_demand);
  set("recencyFloor", plan.recency_floor());
  js.Set("contextTokens",
         number_or_null(env, plan.context > 0 ? std::optional(static_cast<double>(plan.context)) : std::nullopt));
  return js;
}

size_t positive_from_js(const Napi::Object& object, const char* name, size_t most) {
  const Napi::Value value = object.Get(name);
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : 0;
  if (!(number >= 1 && number <= static_cast<double>(most)) || number != std::floor(number)) {
    throw Error("invalid_request",
                std::string("expected \"") + name + "\" to be a whole number from 1 to " + std::to_string(most));
  }
  return static_cast<size_t>(number);
}

ActivationFormat activations_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return ActivationFormat::kF32;
  const std::string name = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  for (const auto format : {ActivationFormat::kF32, ActivationFormat::kBf16, ActivationFormat::kInt8}) {
    if (name == activation_format_name(format)) return format;
  }
  throw Error("invalid_request", "expected \"activations\" to be f32, bf16 or int8");
}

namespace {

KvFormat kv_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return KvFormat::kF32;
  const std::string name = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  for (const auto format : {KvFormat::kF32, KvFormat::kBf16, KvFormat::kQ8_0}) {
    if (name == kKvFormatNames[static_cast<size_t>(format)]) return format;
  }
  throw Error("invalid_request", "expected \"kv\" to be f32, bf16 or q8_0");
}

}  // namespace

DeviceKind device_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return DeviceKind::kCpu;
  const std::string name = value.IsString() ? value.As<Napi::String>().Utf8Value() : "";
  if (name == "cpu") return DeviceKind::kCpu;
  if (name == "cuda") return DeviceKind::kCuda;
  throw Error("invalid_request", "expected \"device\" to be cpu or cuda");
}

BatchLimits limits_from_js(const Napi::Object& object) {
  constexpr size_t kTokens = 1 << 24, kStates = 1 << 16;
  const auto flag = [&](const char* name, bool otherwise) {
    const Napi::Value value = object.Get(name);
    if (value.IsUndefined()) return otherwise;
    if (value.IsBoolean()) return value.ToBoolean().Value();
    throw Error("invalid_request", std::string("expected \"") + name + "\" to be true or false");
  };
  const bool has_k = !object.Get("maxRoutingK").IsUndefined(), has_windows = !object.Get("kvWindows").IsUndefined();
  const bool has_states = !object.Get("kvStates").IsUndefined();
  return {positive_from_js(object, "maxBatchTokens", kTokens),
          positive_from_js(object, "kvTokens", kTokens),
          positive_from_js(object, "threads", 1024),
          has_k ? positive_from_js(object, "maxRoutingK", kMaxRoutingK) : 1,
          flag("routers", true),
          activations_from_js(object.Get("activations")),
          device_from_js(object.Get("device")),
          kv_from_js(object.Get("kv")),
          has_windows ? positive_from_js(object, "kvWindows", kTokens) : 1,
          has_states ? positive_from_js(object, "kvStates", kStates) : BatchLimits{}.kv_states,
          flag("devicePasses", true),
          flag("devicePredictor", false)};
}

uint64_t bytes_from_js(const Napi::Value& value, const char* name) {
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1;
  if (!(number >= 0 && number <= 9007199254740992.0)) {
    throw Error("invalid_request", std::string("expected \"") + name + "\" to be a number of bytes");
  }
  return static_cast<uint64_t>(number);
}

std::optional<WeightFormat> weight_format_from_js(const Napi::Value& value, const char* name, WeightRole role) {
  if (!value.IsObject()) {
    throw Error("invalid_request", std::string("expected \"") + name + "\" to be an object with a dtype");
  }
  const auto object = value.As<Napi::Object>();
  const Napi::Value dtype = object.Get("dtype");
  if (dtype.IsString() && dtype.As<Napi::String>().Utf8Value() == kMixedFormats) return std::nullopt;
  const bool has_group = !object.Get("group").IsUndefined();
  return named_weight_format(
      role, dtype.IsString() ? dtype.As<Napi::String>().Utf8Value() : "",
      has_group ? std::optional<uint64_t>(positive_from_js(object, "group", 1 << 30)) : std::nullopt,
      [&](const std::string& field, const std::string& expected, const std::string& found) {
        throw Error("invalid_request", std::string(name) + "." + field + ": expected " + expected + ", found " + found);
      });
}

Napi::Object weight_format_to_js(Napi::Env env, std::optional<WeightFormat> format) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("dtype", format ? weight_type_name(format->type) : kMixedFormats);
  if (format && format->type == WeightType::kInt4) js.Set("group", format->group);
  return js;
}

}  // namespace sida
