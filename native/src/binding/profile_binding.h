#pragma once

#include <napi.h>

namespace sida {

/// The object `profile` of the addon; see Recorder in addon-types.ts.
Napi::Object profile_js(Napi::Env env);

}  // namespace sida
