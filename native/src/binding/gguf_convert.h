#pragma once

#include <napi.h>

#include <string>

namespace sida {

/// GgufInfo of gguf-types.ts. Throws io_error or checkpoint_invalid.
Napi::Object gguf_info_to_js(Napi::Env env, const std::string& path);

}  // namespace sida
