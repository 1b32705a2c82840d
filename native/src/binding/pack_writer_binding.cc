#include "binding/pack_writer_binding.h"

#include "binding/convert.h"
#include "binding/pack_convert.h"

namespace sida {
Napi::Function PackWriterBinding::define(Napi::Env env) {
  return DefineClass(env, "PackWriter",
                     {InstanceAccessor<&PackWriterBinding::layout>("layout"),
                      InstanceMethod<&PackWriterBinding::expert_bytes>("expertBytes"),
                      InstanceMethod<&PackWriterBinding::write_dense>("writeDense"),
                      InstanceMethod<&PackWriterBinding::write_experts>("writeExperts"),
                      InstanceMethod<&PackWriterBinding::close>("close")});
}

PackWriterBinding::PackWriterBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto options = info[0].As<Napi::Object>();
    writer_ = std::make_unique<PackWriter>(
        options.Get("checkpoint").As<Napi::String>().Utf8Value(), options.Get("out").As<Napi::String>().Utf8Value(),
        weight_format_from_js(options.Get("experts"), "experts", WeightRole::kExperts),
        weight_format_from_js(options.Get("dense"), "dense", WeightRole::kDense),
        options.Get("inPlace").ToBoolean().Value());
  });
}

Napi::Value PackWriterBinding::layout(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value { return pack_layout_to_js(info.Env(), writer_->pack()); });
}

Napi::Value PackWriterBinding::expert_bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Pack& pack = writer_->pack();
    const size_t count = info[0].As<Napi::Number>().Uint32Value();
    return Napi::Number::New(info.Env(), pack.gguf.empty() ? static_cast<double>(pack.experts.blocks_end(count)) : 0);
  });
}

void PackWriterBinding::write_dense(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { writer_->write_dense(); });
}

void PackWriterBinding::write_experts(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    writer_->write_experts(info[0].As<Napi::Number>().Uint32Value(), info[1].As<Napi::Number>().Uint32Value());
  });
}

void PackWriterBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { writer_->close(); });
}

}  // namespace sida
