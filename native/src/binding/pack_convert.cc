#include "binding/pack_convert.h"

#include <vector>

#include "binding/convert.h"

namespace sida {
namespace {

Napi::Array shape_array(Napi::Env env, const std::vector<uint64_t>& shape) {
  Napi::Array js = Napi::Array::New(env);
  for (const uint64_t size : shape) js.Set(js.Length(), static_cast<double>(size));
  return js;
}

}  // namespace

Napi::Object pack_layout_to_js(Napi::Env env, const Pack& pack) {
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

}  // namespace sida
