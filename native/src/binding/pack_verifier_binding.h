#pragma once

#include <napi.h>

#include <memory>

#include "checkpoint/pack_verifier.h"

namespace sida {

/// PackVerifier of addon-types.ts.
class PackVerifierBinding : public Napi::ObjectWrap<PackVerifierBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PackVerifierBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value tensors(const Napi::CallbackInfo& info);
  Napi::Value experts(const Napi::CallbackInfo& info);
  Napi::Value report(const Napi::CallbackInfo& info);
  void check_dense(const Napi::CallbackInfo& info);
  void check_experts(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);
  PackVerifier& verifier();

  std::unique_ptr<PackVerifier> verifier_;
};

}  // namespace sida
