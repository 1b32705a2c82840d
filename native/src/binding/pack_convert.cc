#include "binding/pack_convert.h"

#include <algorithm>
#include <vector>

#include "binding/convert.h"

namespace sida {
namespace {

Napi::Array shape_array(Napi::Env env, const std::vector<uint64_t>& shape) {
  Napi::Array js = Napi::Array::New(env);
  for (const uint64_t size : shape) js.Set(js.Length(), static_cast<double>(size));
  return js;
}

Napi::Array matrices_to_js(Napi::Env env, const BlockLayout& layout, bool typed) {
  Napi::Array matrices = Napi::Array::New(env);
  for (const ExpertMatrix& matrix : layout.matrices) {
    Napi::Object js = typed ? weight_format_to_js(env, matrix.format) : Napi::Object::New(env);
    js.Set("name", projection_name(matrix.projection));
    js.Set("shape", shape_array(env, {matrix.n, matrix.k}));
    js.Set("offset", static_cast<double>(matrix.offset));
    matrices.Set(matrices.Length(), js);
  }
  return matrices;
}

bool same_layout(const BlockLayout& a, const BlockLayout& b) {
  return std::equal(a.matrices.begin(), a.matrices.end(), b.matrices.begin(), b.matrices.end(),
                    [](const ExpertMatrix& one, const ExpertMatrix& other) { return one.format == other.format; });
}

/// The layouts of a mixed pack's blocks, and which of them each layer has.
void set_layouts(Napi::Env env, const ExpertLayout& layout, Napi::Object& experts) {
  Napi::Array layouts = Napi::Array::New(env), of_layers = Napi::Array::New(env);
  std::vector<const BlockLayout*> listed;
  for (const BlockLayout& layer : layout.layers) {
    const auto found =
        std::find_if(listed.begin(), listed.end(), [&](const auto* one) { return same_layout(*one, layer); });
    of_layers.Set(of_layers.Length(), static_cast<double>(found - listed.begin()));
    if (found != listed.end()) continue;
    listed.push_back(&layer);
    Napi::Object js = Napi::Object::New(env);
    js.Set("block_bytes", static_cast<double>(layer.bytes));
    js.Set("matrices", matrices_to_js(env, layer, true));
    layouts.Set(layouts.Length(), js);
  }
  experts.Set("layouts", layouts);
  experts.Set("layout_of_layer", of_layers);
}

/// One number where all layers have the same.
Napi::Value experts_per_layer_to_js(Napi::Env env, const ExpertShape& shape) {
  if (shape.first.empty()) return Napi::Number::New(env, static_cast<double>(shape.experts_per_layer));
  Napi::Array counts = Napi::Array::New(env);
  for (size_t layer = 0; layer < shape.layers; ++layer) {
    counts.Set(counts.Length(), static_cast<double>(shape.experts_of(layer)));
  }
  return counts;
}

}  // namespace

Napi::Object pack_layout_to_js(Napi::Env env, const Pack& pack) {
  Napi::Object experts = weight_format_to_js(env, pack.formats.all_experts);
  experts.Set("file", pack.gguf.empty() ? kExpertFile : kGgufLink);
  experts.Set("block_bytes", static_cast<double>(pack.experts.slot_bytes));
  if (!pack.formats.all_experts) {
    set_layouts(env, pack.experts, experts);
  } else if (!pack.experts.layers.empty()) {
    experts.Set("matrices", matrices_to_js(env, pack.experts.layers.front(), false));
  } else {
    experts.Set("matrices", Napi::Array::New(env));
  }
  experts.Set("layers", shape_to_js(env, pack.spec).Get("moeLayers"));
  experts.Set("experts_per_layer", experts_per_layer_to_js(env, pack.experts.shape));
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
  Napi::Object dense = weight_format_to_js(env, pack.formats.all_dense);
  dense.Set("file", kDenseFile);
  dense.Set("bytes", static_cast<double>(pack.dense.bytes));
  dense.Set("tensors", tensors);
  Napi::Object layout = Napi::Object::New(env);
  layout.Set("experts", experts);
  layout.Set("dense", dense);
  return layout;
}

}  // namespace sida
