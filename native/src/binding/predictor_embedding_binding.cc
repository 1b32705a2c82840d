#include "binding/predictor_embedding_binding.h"

#include "binding/convert.h"
#include "binding/predictor_convert.h"

namespace sida {
namespace {

// Distinguishes a TokenEmbedding from other wrapped objects.
constexpr napi_type_tag kTag = {0x5d1da0e3b7f24c61, 0x9a02c4d87e1f6b35};

TokenEmbedding open_source(const Napi::Object& source) {
  if (source.Get("pack").IsString()) return TokenEmbedding::from_pack(text_from_js(source, "pack"));
  if (source.Get("checkpoint").IsString()) {
    return TokenEmbedding::from_checkpoint(text_from_js(source, "checkpoint"));
  }
  if (source.Get("file").IsString()) return TokenEmbedding::from_file(text_from_js(source, "file"));
  throw Error("invalid_request", "expected a token embedding's \"pack\", \"checkpoint\" or \"file\"");
}

}  // namespace

Napi::Function PredictorEmbeddingBinding::define(Napi::Env env) {
  return DefineClass(env, "TokenEmbedding",
                     {InstanceAccessor<&PredictorEmbeddingBinding::vocab>("vocab"),
                      InstanceAccessor<&PredictorEmbeddingBinding::d_model>("dModel"),
                      InstanceMethod<&PredictorEmbeddingBinding::save>("save"),
                      InstanceMethod<&PredictorEmbeddingBinding::close>("close")});
}

PredictorEmbeddingBinding::PredictorEmbeddingBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    embedding_ = std::make_shared<const TokenEmbedding>(open_source(object_from_js(info[0], "source")));
    info.This().As<Napi::Object>().TypeTag(&kTag);
  });
}

std::shared_ptr<const TokenEmbedding> PredictorEmbeddingBinding::of(const Napi::Value& value) {
  if (!value.IsObject() || !value.As<Napi::Object>().CheckTypeTag(&kTag)) {
    throw Error("invalid_request", "expected \"embedding\" to be a TokenEmbedding");
  }
  return Unwrap(value.As<Napi::Object>())->opened();
}

const std::shared_ptr<const TokenEmbedding>& PredictorEmbeddingBinding::opened() const {
  if (embedding_ == nullptr) throw Error("invalid_request", "the token embedding is closed");
  return embedding_;
}

Napi::Value PredictorEmbeddingBinding::vocab(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), static_cast<double>(opened()->vocab())); });
}

Napi::Value PredictorEmbeddingBinding::d_model(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), static_cast<double>(opened()->d_model())); });
}

void PredictorEmbeddingBinding::save(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    if (!info[0].IsString()) throw Error("invalid_request", "expected \"file\" to be a text");
    opened()->save(info[0].As<Napi::String>().Utf8Value());
  });
}

void PredictorEmbeddingBinding::close(const Napi::CallbackInfo&) { embedding_.reset(); }

}  // namespace sida
