#include <napi.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "binding/convert.h"
#include "binding/engine_binding.h"
#include "binding/expert_peer_binding.h"
#include "binding/gguf_convert.h"
#include "binding/pack_convert.h"
#include "binding/pack_verifier_binding.h"
#include "binding/pack_writer_binding.h"
#include "binding/predictor_binding.h"
#include "binding/predictor_embedding_binding.h"
#include "binding/predictor_trainer_binding.h"
#include "binding/profile_binding.h"
#include "binding/weightless_store_binding.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/finite_weights.h"
#include "checkpoint/gguf_experts.h"
#include "checkpoint/gguf_model_files.h"
#include "checkpoint/model_files.h"
#include "checkpoint/pack.h"
#include "core/cpu_features.h"
#include "engine/devices.h"
#include "expert/disk_speed.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/weight_speed.h"
#include "ops/predicted_routing.h"

namespace sida {
namespace {

Napi::Value cpu_features_js(const Napi::CallbackInfo& info) {
  const CpuFeatures features = cpu_features();
  Napi::Object js = Napi::Object::New(info.Env());
  js.Set("isa", cpu_kernels().isa);
  js.Set("avx2", features.avx2);
  js.Set("fma", features.fma);
  js.Set("avx512", features.avx512);
  js.Set("vnni", features.vnni);
  js.Set("cores", std::thread::hardware_concurrency());
  return js;
}

Napi::Value cuda(const Napi::CallbackInfo& info) {
  const double seconds = info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : 0;
  const CudaState state = cuda_state(std::chrono::duration<double>(seconds));
  Napi::Object js = Napi::Object::New(info.Env());
  js.Set("compiled", state.compiled);
  js.Set("emulated", state.emulated);
  js.Set("devices", state.devices);
  js.Set("message", state.message);
  if (state.devices == 0) return js;
  Napi::Object device = Napi::Object::New(info.Env());
  device.Set("name", state.name);
  device.Set("capability", state.capability);
  device.Set("totalBytes", static_cast<double>(state.total_bytes));
  device.Set("freeBytes", static_cast<double>(state.free_bytes));
  device.Set("contextBytes", static_cast<double>(state.context_bytes));
  device.Set("contextMeasured", state.context_measured);
  device.Set("driver", state.driver);
  if (state.copy_rate > 0) device.Set("copyRate", state.copy_rate);
  js.Set("device", device);
  return js;
}

Napi::Value inspect_checkpoint(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const std::string model = info[0].As<Napi::String>().Utf8Value();
    const Checkpoint checkpoint = Checkpoint::open(model);
    const std::string directory = is_gguf(model) ? std::filesystem::path(model).parent_path().string() : model;
    const std::vector<std::string> others = checkpoint.check_tensors();
    Napi::Object js = Napi::Object::New(env);
    Napi::Array names = Napi::Array::New(env, others.size());
    for (uint32_t i = 0; i < others.size(); ++i) names.Set(i, others[i]);
    js.Set("others", names);
    js.Set("shape", shape_to_js(env, checkpoint.spec()));
    js.Set("dtype", checkpoint.dtype_summary());
    const PackFormats formats = lossless_formats(checkpoint);
    Napi::Object lossless = Napi::Object::New(env);
    lossless.Set("experts", weight_format_to_js(env, formats.all_experts));
    lossless.Set("dense", weight_format_to_js(env, formats.all_dense));
    js.Set("lossless", lossless);
    js.Set("keepsExperts", keeps_experts(checkpoint));
    Napi::Array files = Napi::Array::New(env);
    for (const WeightFile& file : checkpoint.files()) {
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("name", std::filesystem::path(file.file.path()).lexically_relative(directory).string());
      entry.Set("bytes", static_cast<double>(file.file.size()));
      files.Set(files.Length(), entry);
    }
    js.Set("files", files);
    js.Set("tensors", static_cast<double>(checkpoint.tensor_count()));
    js.Set("bytes", static_cast<double>(checkpoint.total_bytes()));
    return js;
  });
}

Napi::Value read_gguf_js(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] { return gguf_info_to_js(env, info[0].As<Napi::String>().Utf8Value()); });
}

/// A pack, or the one that a checkpoint would become.
Pack pack_from_js(const Napi::Object& source) {
  if (source.Get("pack").IsString()) return open_pack(source.Get("pack").As<Napi::String>().Utf8Value());
  const Checkpoint checkpoint = Checkpoint::open(source.Get("checkpoint").As<Napi::String>().Utf8Value());
  const auto format = [&](const char* name, WeightRole role) {
    const Napi::Value value = source.Get(name);
    return value.IsUndefined() ? std::nullopt : weight_format_from_js(value, name, role);
  };
  PackFormats formats =
      chosen_formats(checkpoint, format("experts", WeightRole::kExperts), format("dense", WeightRole::kDense));
  return describe_pack("", checkpoint.spec(), std::move(formats));
}

Napi::Value plan_memory_js(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const BatchLimits limits = limits_from_js(info[1].As<Napi::Object>());
    return plan_to_js(info.Env(), plan_memory(pack_from_js(info[0].As<Napi::Object>()), limits));
  });
}

Napi::Value measure_weight_speed_js(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const BatchLimits limits = limits_from_js(info[1].As<Napi::Object>());
    const Pack pack = pack_from_js(info[0].As<Napi::Object>());
    const double rate = measure_weight_speed(pack.experts, pack.spec.top_k(), limits.activations, limits.threads);
    return Napi::Number::New(info.Env(), rate);
  });
}

Napi::Value describe_pack_js(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const auto options = info[0].As<Napi::Object>();
    const ModelFiles files = read_model_files(options.Get("config").As<Napi::String>().Utf8Value());
    const auto format = [&](const char* name, WeightRole role) {
      if (const auto one = weight_format_from_js(options.Get(name), name, role)) return *one;
      throw Error("invalid_request", std::string(name) + ": types of their own need a checkpoint");
    };
    const WeightFormat experts = format("experts", WeightRole::kExperts), dense = format("dense", WeightRole::kDense);
    Napi::Object layout = pack_layout_to_js(env, describe_pack("", files.spec, experts, dense));
    layout.Set("shape", shape_to_js(env, files.spec));
    return layout;
  });
}

Napi::Value check_finite_js(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const Pack pack = open_pack(info[0].As<Napi::String>().Utf8Value());
    const size_t begin = info[1].As<Napi::Number>().Uint32Value();
    if (begin == 0) check_dense_finite(pack);
    check_experts_finite(pack, begin, info[2].As<Napi::Number>().Uint32Value());
    return Napi::Number::New(info.Env(), static_cast<double>(pack.experts.experts()));
  });
}

Napi::Value measure_disk_speed_js(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const uint64_t read_bytes = bytes_from_js(info[1], "readBytes");
    if (read_bytes == 0 || read_bytes % 4096 != 0) {
      throw Error("invalid_request",
                  "expected \"readBytes\" to be a multiple of 4096, found " + std::to_string(read_bytes));
    }
    const DiskSpeed speed = measure_disk_speed(info[0].As<Napi::String>().Utf8Value(), read_bytes,
                                               std::chrono::duration<double>(info[2].ToNumber()));
    Napi::Object result = Napi::Object::New(env);
    result.Set("depth", static_cast<double>(speed.depth));
    result.Set("bytesPerSecond", speed.bytes_per_second);
    result.Set("best", speed.best_bytes_per_second);
    return result;
  });
}

template <size_t N>
Napi::Array names_to_js(Napi::Env env, const std::array<const char*, N>& all) {
  Napi::Array js = Napi::Array::New(env, N);
  for (uint32_t i = 0; i < N; ++i) js.Set(i, all[i]);
  return js;
}

Napi::Value try_lock_js(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const int operation = info[1].As<Napi::Boolean>().Value() ? LOCK_SH : LOCK_EX;
    if (::flock(info[0].As<Napi::Number>().Int32Value(), operation | LOCK_NB) == 0) {
      return Napi::Boolean::New(env, true);
    }
    if (errno == EWOULDBLOCK || errno == EINTR) return Napi::Boolean::New(env, false);
    throw Error("io_error", std::string("cannot lock: ") + std::strerror(errno));
  });
}

Napi::Object names_js(Napi::Env env) {
  Napi::Object names = Napi::Object::New(env);
  names.Set("isa", names_to_js(env, kKernelSets));
  names.Set("residency", names_to_js(env, kResidencyStates));
  names.Set("policies", names_to_js(env, kEvictionRules));
  names.Set("found", names_to_js(env, kFoundNames));
  return names;
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
  exports.Set("version", SIDA_VERSION);
  exports.Set("names", names_js(env));
  exports.Set("noExpert", kNoExpert);
  exports.Set("kvPageTokens", static_cast<double>(kPageTokens));
  exports.Set("cpuFeatures", Napi::Function::New(env, cpu_features_js, "cpuFeatures"));
  exports.Set("cuda", Napi::Function::New(env, cuda, "cuda"));
  exports.Set("inspectCheckpoint", Napi::Function::New(env, inspect_checkpoint, "inspectCheckpoint"));
  exports.Set("readGguf", Napi::Function::New(env, read_gguf_js, "readGguf"));
  exports.Set("measureWeightSpeed", Napi::Function::New(env, measure_weight_speed_js, "measureWeightSpeed"));
  exports.Set("describePack", Napi::Function::New(env, describe_pack_js, "describePack"));
  exports.Set("checkFinite", Napi::Function::New(env, check_finite_js, "checkFinite"));
  exports.Set("planMemory", Napi::Function::New(env, plan_memory_js, "planMemory"));
  exports.Set("measureDiskSpeed", Napi::Function::New(env, measure_disk_speed_js, "measureDiskSpeed"));
  exports.Set("tryLock", Napi::Function::New(env, try_lock_js, "tryLock"));
  exports.Set("profile", profile_js(env));
  exports.Set("PackWriter", PackWriterBinding::define(env));
  exports.Set("PackVerifier", PackVerifierBinding::define(env));
  exports.Set("Engine", EngineBinding::define(env));
  exports.Set("ExpertPeer", ExpertPeerBinding::define(env));
  exports.Set("WeightlessStore", WeightlessStoreBinding::define(env));
  exports.Set("TokenEmbedding", PredictorEmbeddingBinding::define(env));
  exports.Set("Predictor", PredictorBinding::define(env));
  exports.Set("PredictorTrainer", PredictorTrainerBinding::define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(sida, init)

}  // namespace sida
