#pragma once

#include <napi.h>

#include <memory>

#include "binding/predictor_convert.h"
#include "predictor/predictor.h"

namespace sida {

/// Predictor of addon-types.ts.
class PredictorBinding : public Napi::ObjectWrap<PredictorBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PredictorBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value shape(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value predict(const Napi::CallbackInfo& info);
  void begin(const Napi::CallbackInfo& info);
  void fork(const Napi::CallbackInfo& info);
  Napi::Value step(const Napi::CallbackInfo& info);
  void end(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  Predictor& predictor();
  /// The table of the arguments k, experts, alpha and (optional) chance from index `first` on, checked against
  /// `tokens`.
  ExpertTable table_of(const Napi::CallbackInfo& info, size_t first, size_t tokens);

  std::unique_ptr<Predictor> predictor_;
  bool busy_ = false;
};

}  // namespace sida
