#include "binding/expert_peer_binding.h"

#include "binding/convert.h"
#include "binding/peer_convert.h"

namespace sida {

Napi::Function ExpertPeerBinding::define(Napi::Env env) {
  using Self = ExpertPeerBinding;
  return DefineClass(env, "ExpertPeer",
                     {InstanceAccessor<&Self::port>("port"), InstanceAccessor<&Self::held>("held"),
                      InstanceAccessor<&Self::used_bytes>("usedBytes"), InstanceMethod<&Self::load>("load"),
                      InstanceMethod<&Self::start>("start"), InstanceMethod<&Self::stats>("stats"),
                      InstanceMethod<&Self::close>("close")});
}

ExpertPeerBinding::ExpertPeerBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto js = info[0].As<Napi::Object>();
    const auto held = span_of<uint8_t>(js.Get("held"), "held");
    peer_ = std::make_unique<ExpertPeer>(
        ExpertPeerOptions{.pack = js.Get("pack").As<Napi::String>().Utf8Value(),
                          .held = {held.begin(), held.end()},
                          .budget_bytes = bytes_from_js(js.Get("budgetBytes"), "budgetBytes"),
                          .threads = positive_from_js(js, "threads", 1024),
                          .activations = activations_from_js(js.Get("activations")),
                          .address = address_from_js(js.Get("address")),
                          .secrets = secrets_from_js(js)});
  });
}

ExpertPeer& ExpertPeerBinding::peer() {
  if (!peer_) throw Error("internal", "the expert peer is closed");
  return *peer_;
}

Napi::Value ExpertPeerBinding::port(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), peer().port()); });
}

Napi::Value ExpertPeerBinding::held(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), static_cast<double>(peer().held())); });
}

Napi::Value ExpertPeerBinding::used_bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return Napi::Number::New(info.Env(), static_cast<double>(peer().used_bytes())); });
}

Napi::Value ExpertPeerBinding::load(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const size_t most = static_cast<size_t>(info[0].ToNumber().Uint32Value());
    return Napi::Number::New(info.Env(), static_cast<double>(peer().load(most)));
  });
}

void ExpertPeerBinding::start(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { peer().start(); });
}

Napi::Value ExpertPeerBinding::stats(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const ExpertPeerStats stats = peer().stats();
    Napi::Object js = Napi::Object::New(info.Env());
    js.Set("servers", static_cast<double>(stats.servers));
    js.Set("lastRefused", stats.last_refused);
    return js;
  });
}

void ExpertPeerBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { peer_.reset(); });
}

}  // namespace sida
