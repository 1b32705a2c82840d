#include "binding/predictor_trainer_binding.h"

#include <cmath>
#include <utility>

#include "binding/convert.h"
#include "binding/predictor_embedding_binding.h"
#include "predictor/predictor_checkpoint.h"

namespace sida {
namespace {

constexpr const char* kTrainerName = "the predictor's trainer";
constexpr uint64_t kMaxSeed = uint64_t{1} << 53;

std::unique_ptr<PredictorTrainer> open_trainer(const Napi::Object& options, const TrainerOptions& settings) {
  if (options.Get("directory").IsUndefined()) {
    PredictorWeights weights(predictor_config_from_js(object_from_js(options.Get("shape"), "shape")));
    weights.initialize(whole_from_js(options, "seed", 0, kMaxSeed));
    return std::make_unique<PredictorTrainer>(std::move(weights), settings);
  }
  PredictorCheckpoint checkpoint = load_predictor(text_from_js(options, "directory"), true);
  if (!checkpoint.optimizer) return std::make_unique<PredictorTrainer>(std::move(checkpoint.weights), settings);
  return std::make_unique<PredictorTrainer>(std::move(checkpoint.weights), std::move(*checkpoint.optimizer), settings);
}

}  // namespace

Napi::Function PredictorTrainerBinding::define(Napi::Env env) {
  return DefineClass(env, "PredictorTrainer",
                     {InstanceAccessor<&PredictorTrainerBinding::shape>("shape"),
                      InstanceAccessor<&PredictorTrainerBinding::steps>("steps"),
                      InstanceMethod<&PredictorTrainerBinding::step>("step"),
                      InstanceMethod<&PredictorTrainerBinding::evaluate>("evaluate"),
                      InstanceMethod<&PredictorTrainerBinding::save>("save"),
                      InstanceMethod<&PredictorTrainerBinding::close>("close")});
}

PredictorTrainerBinding::PredictorTrainerBinding(const Napi::CallbackInfo& info) : ObjectWrap(info) {
  guarded(info.Env(), [&] {
    const Napi::Object options = object_from_js(info[0], "options");
    embedding_ = PredictorEmbeddingBinding::of(options.Get("embedding"));
    const auto settings = trainer_options_from_js(object_from_js(options.Get("settings"), "settings"));
    trainer_ = open_trainer(options, settings);
    const size_t d_in = trainer_->weights().layout.config().d_in;
    if (d_in == embedding_->d_model()) return;
    throw Error("invalid_request",
                "The predictor takes token embeddings of width " + std::to_string(d_in) + ", the model's have " +
                    std::to_string(embedding_->d_model()),
                {{"expected", static_cast<double>(d_in)}, {"found", static_cast<double>(embedding_->d_model())}});
  });
}

PredictorTrainer& PredictorTrainerBinding::trainer() {
  if (!trainer_) throw Error("internal", "the predictor's trainer is closed");
  return *trainer_;
}

Napi::Value PredictorTrainerBinding::shape(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] { return predictor_config_to_js(info.Env(), trainer().weights().layout.config()); });
}

Napi::Value PredictorTrainerBinding::steps(const Napi::CallbackInfo& info) {
  return guarded(info.Env(),
                 [&] { return Napi::Number::New(info.Env(), static_cast<double>(trainer().state().steps)); });
}

TrainingReport PredictorTrainerBinding::run(const Napi::Object& batch, const float* learning_rate) {
  const PredictorConfig& config = trainer().weights().layout.config();
  const PredictorInputCopy input(batch);
  const size_t tokens = input.tokens.size();
  const size_t top = whole_from_js(batch, "top", 1, kMaxTop);
  const Napi::Value experts_js = batch.Get("experts");
  const Napi::Value logits_js = batch.Get("logits");
  const size_t count = config.layers * tokens * top;
  const TeacherLogits teacher{elements_of<uint16_t>(experts_js, "experts", count).data(),
                              elements_of<float>(logits_js, "logits", count).data(), tokens, top};
  input.view().check(embedding_->vocab(), config.summary);
  const SequenceBatch sequences = batch_.assign(input.view(), *embedding_, config.summary);
  return learning_rate == nullptr ? trainer().evaluate(sequences, teacher)
                                  : trainer().step(sequences, teacher, *learning_rate);
}

Napi::Value PredictorTrainerBinding::step(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kTrainerName);
    const double rate = info[1].IsNumber() ? info[1].As<Napi::Number>().DoubleValue() : -1;
    if (!(rate >= 0 && std::isfinite(rate))) {
      throw Error("invalid_request", "expected \"learningRate\" to be a number of at least 0");
    }
    const auto learning_rate = static_cast<float>(rate);
    return report_to_js(info.Env(), run(object_from_js(info[0], "batch"), &learning_rate));
  });
}

Napi::Value PredictorTrainerBinding::evaluate(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kTrainerName);
    return report_to_js(info.Env(), run(object_from_js(info[0], "batch"), nullptr));
  });
}

void PredictorTrainerBinding::save(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kTrainerName);
    if (!info[0].IsString()) throw Error("invalid_request", "expected \"directory\" to be a text");
    const std::string directory = info[0].As<Napi::String>().Utf8Value();
    save_predictor(directory, trainer().weights(), info[1].ToBoolean().Value() ? &trainer().state() : nullptr);
  });
}

void PredictorTrainerBinding::close(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] {
    const ExclusiveUse held(&busy_, kTrainerName);
    trainer_.reset();
    batch_ = {};
    embedding_.reset();
  });
}

}  // namespace sida
