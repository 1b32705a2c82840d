#pragma once

#include <napi.h>

#include <memory>

#include "predictor/token_embedding.h"

namespace sida {

/// TokenEmbedding of addon-types.ts.
class PredictorEmbeddingBinding : public Napi::ObjectWrap<PredictorEmbeddingBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PredictorEmbeddingBinding(const Napi::CallbackInfo& info);

  /// The embedding behind a JavaScript value. Throws invalid_request where the value is not one.
  static std::shared_ptr<const TokenEmbedding> of(const Napi::Value& value);

 private:
  Napi::Value vocab(const Napi::CallbackInfo& info);
  Napi::Value d_model(const Napi::CallbackInfo& info);
  void save(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);
  /// Throws invalid_request once it is closed.
  const std::shared_ptr<const TokenEmbedding>& opened() const;

  std::shared_ptr<const TokenEmbedding> embedding_;
};

}  // namespace sida
