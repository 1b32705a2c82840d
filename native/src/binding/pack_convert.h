#pragma once

#include <napi.h>

#include "checkpoint/pack.h"

namespace sida {

/// PackLayout of pack-types.ts.
Napi::Object pack_layout_to_js(Napi::Env env, const Pack& pack);

}  // namespace sida
