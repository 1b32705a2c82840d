#include "binding/gguf_convert.h"

#include <cstring>
#include <string_view>

#include "checkpoint/gguf_model_files.h"
#include "core/utf8.h"

namespace sida {
namespace {

Napi::Value text_to_js(Napi::Env env, std::string_view text) {
  if (is_utf8(text)) return Napi::String::New(env, text.data(), text.size());
  Napi::Uint8Array bytes = Napi::Uint8Array::New(env, text.size());
  std::memcpy(bytes.Data(), text.data(), text.size());
  return bytes;
}

template <typename Array>
Napi::Value array_to_js(Napi::Env env, const std::string& bytes, uint64_t count) {
  Array array = Array::New(env, count);
  if (count > 0) std::memcpy(array.Data(), bytes.data(), bytes.size());
  return array;
}

template <typename T>
T value_of(const std::string& bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

Napi::Value texts_to_js(Napi::Env env, const GgufFile& file, const GgufEntry& entry) {
  Napi::Array texts = Napi::Array::New(env, entry.count);
  file.for_each_text(entry, [&](uint64_t i, std::string_view text) {
    const Napi::HandleScope scope(env);
    texts.Set(static_cast<uint32_t>(i), text_to_js(env, text));
  });
  return entry.array ? Napi::Value(texts) : texts.Get(uint32_t{0});
}

Napi::Value numbers_to_js(Napi::Env env, const GgufEntry& entry, const std::string& bytes) {
  switch (entry.type) {
    case GgufType::kU8:
      return array_to_js<Napi::Uint8Array>(env, bytes, entry.count);
    case GgufType::kI8:
      return array_to_js<Napi::Int8Array>(env, bytes, entry.count);
    case GgufType::kU16:
      return array_to_js<Napi::Uint16Array>(env, bytes, entry.count);
    case GgufType::kI16:
      return array_to_js<Napi::Int16Array>(env, bytes, entry.count);
    case GgufType::kU32:
      return array_to_js<Napi::Uint32Array>(env, bytes, entry.count);
    case GgufType::kI32:
      return array_to_js<Napi::Int32Array>(env, bytes, entry.count);
    case GgufType::kF32:
      return array_to_js<Napi::Float32Array>(env, bytes, entry.count);
    case GgufType::kU64:
      return array_to_js<Napi::BigUint64Array>(env, bytes, entry.count);
    case GgufType::kI64:
      return array_to_js<Napi::BigInt64Array>(env, bytes, entry.count);
    case GgufType::kF64:
      return array_to_js<Napi::Float64Array>(env, bytes, entry.count);
    default: {
      Napi::Array bools = Napi::Array::New(env, entry.count);
      for (uint32_t i = 0; i < entry.count; ++i) bools.Set(i, Napi::Boolean::New(env, bytes[i] != 0));
      return bools;
    }
  }
}

Napi::Value number_to_js(Napi::Env env, GgufType type, const std::string& bytes) {
  switch (type) {
    case GgufType::kU8:
      return Napi::Number::New(env, value_of<uint8_t>(bytes));
    case GgufType::kI8:
      return Napi::Number::New(env, value_of<int8_t>(bytes));
    case GgufType::kU16:
      return Napi::Number::New(env, value_of<uint16_t>(bytes));
    case GgufType::kI16:
      return Napi::Number::New(env, value_of<int16_t>(bytes));
    case GgufType::kU32:
      return Napi::Number::New(env, value_of<uint32_t>(bytes));
    case GgufType::kI32:
      return Napi::Number::New(env, value_of<int32_t>(bytes));
    case GgufType::kF32:
      return Napi::Number::New(env, static_cast<double>(value_of<float>(bytes)));
    case GgufType::kU64:
      return Napi::BigInt::New(env, value_of<uint64_t>(bytes));
    case GgufType::kI64:
      return Napi::BigInt::New(env, value_of<int64_t>(bytes));
    case GgufType::kF64:
      return Napi::Number::New(env, value_of<double>(bytes));
    default:
      return Napi::Boolean::New(env, bytes.front() != 0);
  }
}

Napi::Value entry_to_js(Napi::Env env, const GgufFile& file, const GgufEntry& entry) {
  if (entry.type == GgufType::kText) return texts_to_js(env, file, entry);
  const std::string bytes = file.read(entry);
  return entry.array ? numbers_to_js(env, entry, bytes) : number_to_js(env, entry.type, bytes);
}

Napi::Object tensor_to_js(Napi::Env env, const TensorInfo& tensor) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("name", tensor.name);
  js.Set("type", dtype_name(tensor.dtype));
  Napi::Array shape = Napi::Array::New(env, tensor.shape.size());
  for (uint32_t i = 0; i < tensor.shape.size(); ++i) shape[i] = static_cast<double>(tensor.shape[i]);
  js.Set("shape", shape);
  js.Set("bytes", static_cast<double>(tensor.bytes));
  return js;
}

}  // namespace

Napi::Object gguf_info_to_js(Napi::Env env, const std::string& path) {
  const std::vector<GgufFile> files = open_gguf(path);
  const ModelTexts texts = gguf_texts(files);
  Napi::Object js = Napi::Object::New(env);
  js.Set("config", texts.config);
  js.Set("generationConfig", texts.generation ? Napi::Value(Napi::String::New(env, *texts.generation)) : env.Null());
  Napi::Object metadata = Napi::Object::New(env);
  for (const GgufEntry& entry : files.front().entries()) {
    // A key may be "__proto__".
    metadata.DefineProperty(
        Napi::PropertyDescriptor::Value(entry.key, entry_to_js(env, files.front(), entry), napi_default_jsproperty));
  }
  js.Set("metadata", metadata);
  Napi::Array tensors = Napi::Array::New(env);
  for (const GgufFile& file : files) {
    for (const TensorInfo& tensor : file.tensors()) tensors.Set(tensors.Length(), tensor_to_js(env, tensor));
  }
  js.Set("tensors", tensors);
  return js;
}

}  // namespace sida
