#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "peers/connection.h"
#include "weights/expert_layout.h"

// What a server and an expert peer send each other. Numbers are little-endian, as on every machine with kernels.
//
//   server: magic, nonce          peer: magic, nonce, proof that it has the key
//   server: proof, identity       peer: verdict, and where it is kWelcome, limits and the experts that it holds
//   server: PeerRequest, body     peer: PeerReply, rows; and so on
namespace sida {

/// Both sides must have the same key and the same identity, a text that names the pack and everything else that answers
/// depend on.
struct PeerSecrets {
  std::string key, identity;
};

enum class PeerVerdict : uint32_t { kWelcome, kOtherKey, kOtherIdentity, kFull };

/// The most that one request asks for.
struct PeerLimits {
  uint32_t rows = 0;
  uint32_t choices = 0;
};

/// What a peer is ready to compute.
struct PeerOffer {
  PeerLimits limits;
  std::vector<uint8_t> held;  ///< (experts of all layers): 1 where it holds the expert
};

enum class PeerRequestKind : uint32_t { kExperts, kEcho };

/// kExperts: `layer`, and how many of each follow: experts (AskedExpert), choices (uint32_t, rows), rows (float,
/// width). kEcho: `rows` bytes follow, and as many come back.
struct PeerRequest {
  PeerRequestKind kind = PeerRequestKind::kExperts;
  uint32_t layer = 0;
  uint32_t experts = 0;
  uint32_t choices = 0;
  uint32_t rows = 0;
};

/// An expert of the layer. `count`: its choices. The choices of all experts stand in the order of the experts.
struct AskedExpert {
  uint32_t index = 0;
  uint32_t count = 0;
};

/// The outputs (choices, width) follow, in the order of the request.
struct PeerReply {
  uint64_t compute_ns = 0;  ///< from the end of the request to the first byte of the reply
};

inline constexpr uint32_t kMostEchoBytes = 256 << 10;

template <class T>
std::span<const std::byte> value_bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> value_buffer(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// HMAC-SHA-256 (RFC 2104) in hexadecimal.
std::string hmac_sha256(std::string_view key, std::string_view message);

/// The server's side of the handshake. Throws ConnectionLost, which says what does not fit.
PeerOffer greet_peer(Connection& connection, const PeerSecrets& secrets, size_t experts, Deadline deadline);
/// The peer's side. `admit` is called once the server has shown its key and identity, and tells whether there is room.
/// Throws ConnectionLost where the server may not ask.
void greet_server(Connection& connection, const PeerSecrets& secrets, const PeerOffer& offer, Deadline deadline,
                  const std::function<bool()>& admit);

/// Throws ConnectionLost where a request of kExperts exceeds `limits` or the layer.
void check_request(const PeerRequest& request, const ExpertShape& shape, const PeerLimits& limits);
/// Throws ConnectionLost where the experts are not ascending, not held, or do not have request.choices in all, or where
/// a choice is of no row.
void check_choices(const PeerRequest& request, std::span<const AskedExpert> experts, std::span<const uint32_t> choices,
                   const ExpertShape& shape, std::span<const uint8_t> held);

}  // namespace sida
