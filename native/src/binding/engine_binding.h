#pragma once

#include <napi.h>

#include <memory>

#include "engine/engine.h"

namespace sida {

/// Engine of addon-types.ts.
class EngineBinding : public Napi::ObjectWrap<EngineBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit EngineBinding(const Napi::CallbackInfo& info);

 private:
  Napi::Value shape(const Napi::CallbackInfo& info);
  Napi::Value plan(const Napi::CallbackInfo& info);
  Napi::Value formats(const Napi::CallbackInfo& info);
  Napi::Value table_weight(const Napi::CallbackInfo& info);
  Napi::Value run_batch(const Napi::CallbackInfo& info);
  void release_sequences(const Napi::CallbackInfo& info);
  void fork_sequence(const Napi::CallbackInfo& info);
  void keep_pages(const Napi::CallbackInfo& info);
  void share_pages(const Napi::CallbackInfo& info);
  Napi::Value residency(const Napi::CallbackInfo& info);
  Napi::Value usage(const Napi::CallbackInfo& info);
  void set_budget(const Napi::CallbackInfo& info);
  void pin(const Napi::CallbackInfo& info);
  void check_integrity(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  /// Throws internal when the engine is closed.
  Engine& engine();

  std::unique_ptr<Engine> engine_;
};

}  // namespace sida
