#include "binding/peer_convert.h"

#include "core/error.h"

namespace sida {

PeerSecrets secrets_from_js(const Napi::Object& js) {
  const auto text = [&](const char* name) {
    return js.Get(name).IsString() ? js.Get(name).As<Napi::String>().Utf8Value() : std::string();
  };
  return {text("peerKey"), text("peerIdentity")};
}

PeerAddress address_from_js(const Napi::Value& value) {
  const auto js = value.ToObject();
  const double port = js.Get("port").ToNumber().DoubleValue();
  if (!js.Get("host").IsString() || !(port >= 0 && port <= 65535)) {
    throw Error("invalid_request", "expected an address of a host and a port");
  }
  return {js.Get("host").As<Napi::String>().Utf8Value(), static_cast<uint16_t>(port)};
}

PeerLinksOptions peers_from_js(const Napi::Object& js) {
  PeerLinksOptions options{{}, secrets_from_js(js)};
  if (!js.Get("expertPeers").IsArray()) return options;
  const auto peers = js.Get("expertPeers").As<Napi::Array>();
  for (uint32_t i = 0; i < peers.Length(); ++i) options.peers.push_back(address_from_js(peers.Get(i)));
  return options;
}

Napi::Array peers_to_js(Napi::Env env, const std::vector<PeerLinkStats>& peers) {
  Napi::Array all = Napi::Array::New(env, peers.size());
  for (uint32_t i = 0; i < peers.size(); ++i) {
    const PeerLinkStats& peer = peers[i];
    Napi::Object js = Napi::Object::New(env);
    const auto set = [&](const char* name, auto value) { js.Set(name, static_cast<double>(value)); };
    js.Set("address", peer.address);
    js.Set("connected", peer.connected);
    js.Set("error", peer.error);
    set("held", peer.held);
    set("requests", peer.requests);
    set("experts", peer.experts);
    set("failures", peer.failures);
    set("sentBytes", peer.sent_bytes);
    set("receivedBytes", peer.received_bytes);
    set("roundTripSeconds", peer.round_trip_seconds);
    set("bytesPerSecond", peer.bytes_per_second);
    all.Set(i, js);
  }
  return all;
}

}  // namespace sida
