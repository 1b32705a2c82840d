#include "binding/pack_writer_binding.h"

#include "binding/convert.h"

namespace sida {
namespace {

Stripes stripes_from_js(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const auto js = value.As<Napi::Object>();
  return {positive_from_js(js, "count", kMaxStripes), js.Get("stamp").As<Napi::String>().Utf8Value()};
}

Napi::Array shape_array(Napi::Env env, const std::vector<uint64_t>& shape) {
  Napi::Array js = Napi::Array::New(env);
  for (const uint64_t size : shape) js.Set(js.Length(), static_cast<double>(size));
  return js;
}

}  // namespace

Napi::Function PackWriterBinding::define(Napi::Env env) {
  return DefineClass(env, "PackWriter",
                     {InstanceAccessor<&PackWriterBinding::layout>("layout"),
                      InstanceAccessor<&PackWriterBinding::expert_files>("expertFiles"),
                      InstanceMethod<&PackWriterBinding::write_dense>("writeDense"),
                      InstanceMethod<&PackWriterBinding::write_experts>("writeExperts"),
                      InstanceMethod<&PackWriterBinding::close>("close")});
}

PackWriterBinding::PackWriterBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const auto options = info[0].As<Napi::Object>();
    writer_ = std::make_unique<PackWriter>(
        options.Get("checkpoint").As<Napi::String>().Utf8Value(),
        options.Get("out").As<Napi::String>().Utf8Value(),
        weight_format_from_js(options.Get("experts"), "experts", WeightRole::kExperts),
        weight_format_from_js(options.Get("dense"), "dense", WeightRole::kDense),
        stripes_from_js(options.Get("stripes")));
  });
}

Napi::Value PackWriterBinding::layout(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Pack& pack = writer_->pack();
  Napi::Object experts = weight_format_to_js(env, pack.experts.format);
  if (pack.stripes.count == 1) {
    experts.Set("file", pack.stripe_layout().file_name(0));
  } else {
    Napi::Object stripes = Napi::Object::New(env);
    stripes.Set("count", static_cast<double>(pack.stripes.count));
    stripes.Set("stamp", pack.stripes.stamp);
    experts.Set("stripes", stripes);
  }
  experts.Set("block_bytes", static_cast<double>(pack.experts.block_bytes));
  Napi::Array matrices = Napi::Array::New(env);
  for (const ExpertMatrix& matrix : pack.experts.matrices) {
    Napi::Object js = Napi::Object::New(env);
    js.Set("name", projection_name(matrix.projection));
    js.Set("shape", shape_array(env, {matrix.n, matrix.k}));
    js.Set("offset", static_cast<double>(matrix.offset));
    matrices.Set(matrices.Length(), js);
  }
  experts.Set("matrices", matrices);
  experts.Set("layers", shape_to_js(env, pack.spec).Get("moeLayers"));
  experts.Set("experts_per_layer", static_cast<double>(pack.experts.shape.experts_per_layer));
  Napi::Array tensors = Napi::Array::New(env);
  for (const DenseTensor& tensor : pack.dense.tensors) {
    Napi::Object js = Napi::Object::New(env);
    js.Set("name", tensor.name);
    js.Set("dtype", weight_type_name(tensor.format.type));
    js.Set("layout", tensor.panels() ? "panels" : "rows");
    js.Set("shape", shape_array(env, tensor.slot.shape));
    js.Set("offset", static_cast<double>(tensor.offset));
    js.Set("bytes", static_cast<double>(tensor.bytes));
    tensors.Set(tensors.Length(), js);
  }
  Napi::Object dense = weight_format_to_js(env, pack.dense.format);
  dense.Set("file", kDenseFile);
  dense.Set("bytes", static_cast<double>(pack.dense.bytes));
  dense.Set("tensors", tensors);
  Napi::Object layout = Napi::Object::New(env);
  layout.Set("experts", experts);
  layout.Set("dense", dense);
  return layout;
}

Napi::Value PackWriterBinding::expert_files(const Napi::CallbackInfo& info) {
  const StripeLayout layout = writer_->pack().stripe_layout();
  Napi::Array files = Napi::Array::New(info.Env(), layout.files());
  for (uint32_t i = 0; i < layout.files(); ++i) {
    Napi::Object file = Napi::Object::New(info.Env());
    file.Set("name", layout.file_name(i));
    file.Set("bytes", static_cast<double>(layout.file_bytes(i)));
    files[i] = file;
  }
  return files;
}

void PackWriterBinding::write_dense(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { writer_->write_dense(); });
}

void PackWriterBinding::write_experts(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    writer_->write_experts(info[0].As<Napi::Number>().Uint32Value(),
                           info[1].As<Napi::Number>().Uint32Value());
  });
}

void PackWriterBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { writer_->close(); });
}

}  // namespace sida
