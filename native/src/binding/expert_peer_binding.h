#pragma once

#include <napi.h>

#include <memory>

#include "peers/expert_peer.h"

namespace sida {

/// ExpertPeer of peer-types.ts.
class ExpertPeerBinding : public Napi::ObjectWrap<ExpertPeerBinding> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit ExpertPeerBinding(const Napi::CallbackInfo& info);

 private:
  ExpertPeer& peer();
  Napi::Value port(const Napi::CallbackInfo& info);
  Napi::Value held(const Napi::CallbackInfo& info);
  Napi::Value used_bytes(const Napi::CallbackInfo& info);
  Napi::Value load(const Napi::CallbackInfo& info);
  void start(const Napi::CallbackInfo& info);
  Napi::Value stats(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::unique_ptr<ExpertPeer> peer_;
};

}  // namespace sida
