#include "binding/pack_verifier_binding.h"

#include "binding/convert.h"

namespace sida {
namespace {

/// The arguments begin and end, checked against `count`.
std::pair<size_t, size_t> range_from_js(const Napi::CallbackInfo& info, size_t count) {
  const size_t begin = info[0].As<Napi::Number>().Uint32Value();
  const size_t end = info[1].As<Napi::Number>().Uint32Value();
  if (begin > end || end > count) {
    throw Error("invalid_request",
                "from " + std::to_string(begin) + " to " + std::to_string(end) + " of " + std::to_string(count));
  }
  return {begin, end};
}

}  // namespace

Napi::Function PackVerifierBinding::define(Napi::Env env) {
  return DefineClass(env, "PackVerifier",
                     {InstanceAccessor<&PackVerifierBinding::tensors>("tensors"),
                      InstanceAccessor<&PackVerifierBinding::experts>("experts"),
                      InstanceAccessor<&PackVerifierBinding::report>("report"),
                      InstanceMethod<&PackVerifierBinding::check_dense>("checkDense"),
                      InstanceMethod<&PackVerifierBinding::check_experts>("checkExperts"),
                      InstanceMethod<&PackVerifierBinding::close>("close")});
}

PackVerifierBinding::PackVerifierBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto options = info[0].As<Napi::Object>();
    verifier_ = std::make_unique<PackVerifier>(options.Get("checkpoint").As<Napi::String>().Utf8Value(),
                                               options.Get("pack").As<Napi::String>().Utf8Value());
  });
}

PackVerifier& PackVerifierBinding::verifier() {
  if (!verifier_) throw Error("internal", "the pack verifier is closed");
  return *verifier_;
}

Napi::Value PackVerifierBinding::tensors(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    return Napi::Number::New(info.Env(), static_cast<double>(verifier().pack().dense.tensors.size()));
  });
}

Napi::Value PackVerifierBinding::experts(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    return Napi::Number::New(info.Env(), static_cast<double>(verifier().pack().experts.experts()));
  });
}

Napi::Value PackVerifierBinding::report(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const Napi::Env env = info.Env();
    const PackVerifier::Report& report = verifier().report();
    const auto compared = [&](const PackVerifier::Errors& errors) {
      Napi::Object js = Napi::Object::New(env);
      js.Set("largest", errors.largest);
      js.Set("bound", errors.bound);
      return js;
    };
    Napi::Object js = Napi::Object::New(env);
    js.Set("experts", compared(report.experts));
    js.Set("dense", compared(report.dense));
    return js;
  });
}

void PackVerifierBinding::check_dense(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const auto [begin, end] = range_from_js(info, verifier().pack().dense.tensors.size());
    verifier().check_dense(begin, end);
  });
}

void PackVerifierBinding::check_experts(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const auto [begin, end] = range_from_js(info, verifier().pack().experts.experts());
    verifier().check_experts(begin, end);
  });
}

void PackVerifierBinding::close(const Napi::CallbackInfo&) { verifier_.reset(); }

}  // namespace sida
