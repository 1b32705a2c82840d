#pragma once

#include <napi.h>

#include <optional>

#include "expert/weightless_store.h"

namespace sida {

/// WeightlessStore of store-types.ts.
class WeightlessStoreBinding : public Napi::ObjectWrap<WeightlessStoreBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit WeightlessStoreBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value table_weight(const Napi::CallbackInfo& info);
  Napi::Value plan(const Napi::CallbackInfo& info);
  void learn(const Napi::CallbackInfo& info);
  Napi::Value take_plan_ns(const Napi::CallbackInfo& info);
  Napi::Value start_pass(const Napi::CallbackInfo& info);
  Napi::Value visit(const Napi::CallbackInfo& info);
  Napi::Value pin(const Napi::CallbackInfo& info);
  Napi::Value residency(const Napi::CallbackInfo& info);
  void check_integrity(const Napi::CallbackInfo& info);

  std::optional<WeightlessStore> store_;
};

}  // namespace sida
