#include "binding/pack_writer_binding.h"

#include "binding/convert.h"
#include "binding/pack_convert.h"

namespace sida {
namespace {

Stripes stripes_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const auto js = value.As<Napi::Object>();
  return {positive_from_js(js, "count", kMaxStripes), js.Get("stamp").As<Napi::String>().Utf8Value()};
}

}  // namespace

Napi::Function PackWriterBinding::define(Napi::Env env) {
  return DefineClass(env, "PackWriter",
                     {InstanceAccessor<&PackWriterBinding::layout>("layout"),
                      InstanceAccessor<&PackWriterBinding::expert_files>("expertFiles"),
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
        stripes_from_js(options.Get("stripes")), options.Get("inPlace").ToBoolean().Value());
  });
}

Napi::Value PackWriterBinding::layout(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value { return pack_layout_to_js(info.Env(), writer_->pack()); });
}

Napi::Value PackWriterBinding::expert_files(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const Pack& pack = writer_->pack();
    const StripeLayout layout = pack.stripe_layout();
    Napi::Array files = Napi::Array::New(info.Env());
    for (uint32_t i = 0; pack.gguf.empty() && i < layout.files(); ++i) {
      Napi::Object file = Napi::Object::New(info.Env());
      file.Set("name", expert_file_name(pack.stripes, i));
      file.Set("bytes", static_cast<double>(layout.file_bytes(i)));
      files[i] = file;
    }
    return files;
  });
}

Napi::Value PackWriterBinding::expert_bytes(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&]() -> Napi::Value {
    const StripeLayout layout = writer_->pack().stripe_layout();
    const size_t count = info[0].As<Napi::Number>().Uint32Value();
    Napi::Array bytes = Napi::Array::New(info.Env(), layout.files());
    for (uint32_t i = 0; i < layout.files(); ++i) bytes[i] = static_cast<double>(layout.blocks_end(i, count));
    return bytes;
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
