#pragma once

#include <napi.h>

#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "engine/memory_plan.h"
#include "spec/spec.h"
#include "weights/weight_format.h"

namespace sida {

/// The JavaScript error of a C++ one: `code`, `details` and the message.
Napi::Error to_js_error(Napi::Env env, const std::exception& error);

/// Runs `body`; a C++ error becomes a JavaScript one.
template <class Body>
auto guarded(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw to_js_error(env, error);
  }
}

Napi::Object shape_to_js(Napi::Env env, const ModelSpec& spec);
Napi::Object plan_to_js(Napi::Env env, const MemoryPlan& plan);
/// A whole number from 1 to `most`. Throws invalid_request naming the field.
size_t positive_from_js(const Napi::Object& object, const char* name, size_t most);
/// Throws invalid_request.
ActivationFormat activations_from_js(const Napi::Value& value);
/// The cpu where it is undefined. Throws invalid_request.
DeviceKind device_from_js(const Napi::Value& value);
BatchLimits limits_from_js(const Napi::Object& object);
/// Of `{dtype, group}`; group where the type has one. Throws invalid_request naming `name` and the field.
/// Nothing where the dtype is `mixed`: matrices have types of their own.
std::optional<WeightFormat> weight_format_from_js(const Napi::Value& value, const char* name, WeightRole role);
Napi::Object weight_format_to_js(Napi::Env env, std::optional<WeightFormat> format);

/// A byte count: a whole number from 0 to 2^53. Throws invalid_request naming the field.
uint64_t bytes_from_js(const Napi::Value& value, const char* name);

template <class T>
inline constexpr napi_typedarray_type kTypedArrayOf = [] {
  if constexpr (std::is_same_v<T, uint8_t>) return napi_uint8_array;
  if constexpr (std::is_same_v<T, int32_t>) return napi_int32_array;
  if constexpr (std::is_same_v<T, uint32_t>) return napi_uint32_array;
  if constexpr (std::is_same_v<T, uint16_t>) return napi_uint16_array;
  if constexpr (std::is_same_v<T, float>) return napi_float32_array;
  if constexpr (std::is_same_v<T, double>) return napi_float64_array;
  if constexpr (std::is_same_v<T, uint64_t>) return napi_biguint64_array;
}();

/// The elements of a typed array of exactly this type. Throws invalid_request naming the field.
template <class T>
std::span<const T> span_of(const Napi::Value& value, const char* name) {
  if (value.IsTypedArray()) {
    const auto array = value.As<Napi::TypedArrayOf<T>>();
    if (array.TypedArrayType() == kTypedArrayOf<T>) {
      return {array.Data(), array.ElementLength()};
    }
  }
  throw Error("invalid_request", std::string("expected \"") + name + "\" to be a typed array of its element type");
}

}  // namespace sida
