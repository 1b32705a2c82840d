#pragma once

#include <napi.h>

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/error.h"
#include "predictor/predictor_config.h"
#include "predictor/predictor_trainer.h"
#include "predictor/token_input.h"

namespace sida {

// Readers of the arguments that JavaScript passes to the predictor's objects. All throw invalid_request naming the
// field.

Napi::Object object_from_js(const Napi::Value& value, const char* name);
double number_from_js(const Napi::Object& object, const char* name, double least, double most);
/// A whole number.
uint64_t whole_from_js(const Napi::Object& object, const char* name, uint64_t least, uint64_t most);
bool flag_from_js(const Napi::Object& object, const char* name);
std::string text_from_js(const Napi::Object& object, const char* name);

inline constexpr uint64_t kMaxPredictorThreads = 1024;
inline constexpr uint64_t kMaxTop = 65535;

template <class T>
constexpr napi_typedarray_type typed_array_type() {
  if constexpr (std::is_same_v<T, int32_t>) return napi_int32_array;
  if constexpr (std::is_same_v<T, uint16_t>) return napi_uint16_array;
  if constexpr (std::is_same_v<T, float>) return napi_float32_array;
}

/// The elements of a typed array of exactly this type, which may be written to. Good until JavaScript runs.
template <class T>
std::span<T> elements_of(const Napi::Value& value, const char* name) {
  if (value.IsTypedArray() && value.As<Napi::TypedArray>().TypedArrayType() == typed_array_type<T>()) {
    auto array = value.As<Napi::TypedArrayOf<T>>();
    return {array.Data(), array.ElementLength()};
  }
  throw Error("invalid_request", std::string("expected \"") + name + "\" to be a typed array of its element type");
}

/// The same, of exactly `count` elements.
template <class T>
std::span<T> elements_of(const Napi::Value& value, const char* name, uint64_t count) {
  const std::span<T> elements = elements_of<T>(value, name);
  if (elements.size() == count) return elements;
  throw Error("invalid_request",
              std::string("expected \"") + name + "\" to hold " + std::to_string(count) + " elements, found " +
                  std::to_string(elements.size()),
              {{"expected", static_cast<double>(count)}, {"found", static_cast<double>(elements.size())}});
}

/// A copy, which later getters or a detached buffer cannot change; empty where the value is undefined.
template <class T>
std::vector<T> copy_from_js(const Napi::Value& value, const char* name) {
  if (value.IsUndefined() || value.IsNull()) return {};
  const std::span<T> elements = elements_of<T>(value, name);
  return {elements.begin(), elements.end()};
}

/// PredictorInput of addon-types.ts, copied.
struct PredictorInputCopy {
  explicit PredictorInputCopy(const Napi::Object& js);

  TokenInput view() const { return {tokens, offsets, context_tokens, context_offsets}; }

  std::vector<int32_t> tokens;
  std::vector<int32_t> offsets;
  std::vector<int32_t> context_tokens;
  std::vector<int32_t> context_offsets;
};

PredictorConfig predictor_config_from_js(const Napi::Object& js);
Napi::Object predictor_config_to_js(Napi::Env env, const PredictorConfig& config);

TrainerOptions trainer_options_from_js(const Napi::Object& js);
Napi::Object report_to_js(Napi::Env env, const TrainingReport& report);

/// Marks an object as busy during a call: a getter of the call's arguments must not call it again.
class ExclusiveUse {
 public:
  /// Throws internal where the object is in use.
  ExclusiveUse(bool* busy, const char* what);
  ~ExclusiveUse() { *busy_ = false; }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  bool* busy_;
};

}  // namespace sida
