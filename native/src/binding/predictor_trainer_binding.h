#pragma once

#include <napi.h>

#include <memory>

#include "binding/predictor_convert.h"
#include "predictor/predictor_trainer.h"

namespace sida {

/// PredictorTrainer of addon-types.ts.
class PredictorTrainerBinding : public Napi::ObjectWrap<PredictorTrainerBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PredictorTrainerBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value shape(const Napi::CallbackInfo& info);
  Napi::Value steps(const Napi::CallbackInfo& info);
  Napi::Value step(const Napi::CallbackInfo& info);
  Napi::Value evaluate(const Napi::CallbackInfo& info);
  void save(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  PredictorTrainer& trainer();
  /// Trains on the batch, or only evaluates it where `learning_rate` is null.
  TrainingReport run(const Napi::Object& batch, const float* learning_rate);

  std::shared_ptr<const TokenEmbedding> embedding_;
  std::unique_ptr<PredictorTrainer> trainer_;
  EmbeddedBatch batch_;
  bool busy_ = false;
};

}  // namespace sida
