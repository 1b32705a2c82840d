#include "binding/profile_binding.h"

#include <string>

#include "binding/convert.h"
#include "core/profile.h"

namespace sida {
namespace {

Napi::Array ops_to_js(Napi::Env env) {
  Napi::Array ops = Napi::Array::New(env);
  for (const ProfileOpInfo& info : profile_ops()) {
    Napi::Object op = Napi::Object::New(env);
    op.Set("name", info.name);
    op.Set("category", info.category);
    ops.Set(ops.Length(), op);
  }
  return ops;
}

Napi::Object lane_to_js(Napi::Env env, const ProfileLane& lane) {
  const size_t count = lane.events.size();
  auto op = Napi::Uint16Array::New(env, count);
  auto begin = Napi::Float64Array::New(env, count);
  auto duration = Napi::Float64Array::New(env, count);
  auto layer = Napi::Int32Array::New(env, count);
  auto expert = Napi::Int32Array::New(env, count);
  auto tokens = Napi::Int32Array::New(env, count);
  auto batch = Napi::Int32Array::New(env, count);
  auto bytes = Napi::Float64Array::New(env, count);
  for (size_t i = 0; i < count; ++i) {
    const ProfileEvent& event = lane.events[i];
    op[i] = static_cast<uint16_t>(event.op);
    begin[i] = static_cast<double>(event.begin_ns);
    duration[i] = static_cast<double>(event.duration_ns);
    layer[i] = event.args.layer;
    expert[i] = event.args.expert;
    tokens[i] = event.args.tokens;
    batch[i] = event.args.batch;
    bytes[i] = static_cast<double>(event.args.bytes);
  }
  Napi::Object js = Napi::Object::New(env);
  js.Set("thread", lane.thread);
  js.Set("name", lane.name);
  js.Set("op", op);
  js.Set("begin", begin);
  js.Set("duration", duration);
  js.Set("layer", layer);
  js.Set("expert", expert);
  js.Set("tokens", tokens);
  js.Set("batch", batch);
  js.Set("bytes", bytes);
  return js;
}

Napi::Value start(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    profile_start(bytes_from_js(info[0], "bytes"));
    return info.Env().Undefined();
  });
}

Napi::Value stop(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    Profile profile = profile_stop();
    Napi::Object js = Napi::Object::New(env);
    js.Set("beginNs", static_cast<double>(profile.begin_ns));
    js.Set("endNs", static_cast<double>(profile.end_ns));
    js.Set("dropped", static_cast<double>(profile.dropped));
    Napi::Array lanes = Napi::Array::New(env);
    for (ProfileLane& lane : profile.lanes) {
      lanes.Set(lanes.Length(), lane_to_js(env, lane));
      // Only one lane at a time is in memory twice.
      lane.events = {};
    }
    js.Set("lanes", lanes);
    return js;
  });
}

Napi::Value now(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), profile_on() ? static_cast<double>(profile_now()) : 0);
}

Napi::Value record(const Napi::CallbackInfo& info) {
  const double op = info[0].ToNumber().DoubleValue();
  const double begin = info[1].ToNumber().DoubleValue();
  if (!(op >= 0 && op < static_cast<double>(ProfileOp::kCount)) || !(begin >= 1)) {
    throw Napi::TypeError::New(info.Env(), "expected the number of an op and the time of its begin");
  }
  ProfileArgs args;
  if (info[2].IsNumber()) args.tokens = info[2].As<Napi::Number>().Int32Value();
  if (info[3].IsNumber()) args.batch = info[3].As<Napi::Number>().Int32Value();
  profile_record(static_cast<ProfileOp>(op), static_cast<uint64_t>(begin), args);
  return info.Env().Undefined();
}

Napi::Value name_thread(const Napi::CallbackInfo& info) {
  profile_name_thread(info[0].ToString().Utf8Value());
  return info.Env().Undefined();
}

}  // namespace

Napi::Object profile_js(Napi::Env env) {
  Napi::Object js = Napi::Object::New(env);
  js.Set("ops", ops_to_js(env));
  js.Set("start", Napi::Function::New(env, start, "start"));
  js.Set("stop", Napi::Function::New(env, stop, "stop"));
  js.Set("now", Napi::Function::New(env, now, "now"));
  js.Set("record", Napi::Function::New(env, record, "record"));
  js.Set("nameThread", Napi::Function::New(env, name_thread, "nameThread"));
  return js;
}

}  // namespace sida
