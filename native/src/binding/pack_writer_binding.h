#pragma once

#include <napi.h>

#include <memory>

#include "checkpoint/pack_writer.h"

namespace sida {

/// PackWriter of addon-types.ts.
class PackWriterBinding : public Napi::ObjectWrap<PackWriterBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit PackWriterBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value layout(const Napi::CallbackInfo& info);
  Napi::Value expert_bytes(const Napi::CallbackInfo& info);
  void write_dense(const Napi::CallbackInfo& info);
  void write_experts(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::unique_ptr<PackWriter> writer_;
};

}  // namespace sida
