#pragma once

#include <napi.h>

#include <vector>

#include "peers/peer_links.h"

namespace sida {

/// PeerSecrets, and `expertPeers` of engine-types.ts where there are any.
PeerSecrets secrets_from_js(const Napi::Object& js);
PeerLinksOptions peers_from_js(const Napi::Object& js);
/// { host, port }.
PeerAddress address_from_js(const Napi::Value& value);

Napi::Array peers_to_js(Napi::Env env, const std::vector<PeerLinkStats>& peers);

}  // namespace sida
