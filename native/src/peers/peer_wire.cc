#include "peers/peer_wire.h"

#include <sys/random.h>

#include <algorithm>

#include "core/sha256.h"

namespace sida {
namespace {

constexpr std::array<char, 8> kMagic{'s', 'i', 'd', 'a', 'X', 'P', '0', '1'};
constexpr size_t kBlock = 64;   // of SHA-256
constexpr size_t kDigest = 64;  // hexadecimal digits

using Nonce = std::array<char, 32>;
using Digest = std::array<char, kDigest>;

Nonce make_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw ConnectionLost("the system gave no random numbers");
  }
  return nonce;
}

template <class T>
T receive_value(Connection& connection, Deadline deadline) {
  T value;
  connection.receive(value_buffer(value), deadline);
  return value;
}

template <class... Values>
void send_values(Connection& connection, Deadline deadline, const Values&... values) {
  std::vector<std::byte> bytes;
  const auto add = [&](std::span<const std::byte> part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  (add(value_bytes(values)), ...);
  connection.send(bytes, deadline);
}

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

/// In constant time.
bool equal(const Digest& a, const Digest& b) {
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Digest digest_of(const std::string& text) {
  Digest digest;
  std::copy_n(text.begin(), kDigest, digest.begin());
  return digest;
}

/// That `who` has the key, for these nonces alone.
Digest proof(const std::string& key, std::string_view who, const Nonce& server, const Nonce& peer) {
  std::string message(who);
  message.append(server.data(), server.size()).append(peer.data(), peer.size());
  return digest_of(hmac_sha256(key, message));
}

void check_magic(const std::array<char, 8>& magic) {
  if (magic != kMagic) throw ConnectionLost("not an expert peer, or one of another version");
}

}  // namespace

std::string hmac_sha256(std::string_view key, std::string_view message) {
  const auto bytes_of_hex = [](const std::string& hex) {
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
  };
  std::string block(key.size() > kBlock ? bytes_of_hex(sha256(key)) : std::string(key));
  block.resize(kBlock, '\0');
  const auto padded = [&](char pad, std::string_view text) {
    std::string bytes = block;
    for (char& byte : bytes) byte = static_cast<char>(byte ^ pad);
    return sha256(bytes.append(text));
  };
  return padded(0x5c, bytes_of_hex(padded(0x36, message)));
}

PeerOffer greet_peer(Connection& connection, const PeerSecrets& secrets, size_t experts, Deadline deadline) {
  const Nonce own = make_nonce();
  send_values(connection, deadline, kMagic, own);
  check_magic(receive_value<std::array<char, 8>>(connection, deadline));
  const auto other = receive_value<Nonce>(connection, deadline);
  const bool proved = equal(receive_value<Digest>(connection, deadline), proof(secrets.key, "peer", own, other));
  // Also to one without the key, so that its log tells why it is not used.
  send_values(connection, deadline, proof(secrets.key, "server", own, other), digest_of(sha256(secrets.identity)));
  if (!proved) throw ConnectionLost("it has another key");
  const auto verdict = receive_value<PeerVerdict>(connection, deadline);
  if (verdict == PeerVerdict::kFull) throw ConnectionLost("it has no room for another server");
  if (verdict == PeerVerdict::kOtherKey) throw ConnectionLost("it has another key");
  if (verdict != PeerVerdict::kWelcome) {
    throw ConnectionLost("it holds another model, element type, or has other --activations or another version of sida");
  }
  PeerOffer offer{receive_value<PeerLimits>(connection, deadline), {}};
  if (receive_value<uint32_t>(connection, deadline) != experts) throw ConnectionLost("it holds another model");
  offer.held.resize(experts);
  connection.receive(std::as_writable_bytes(std::span(offer.held)), deadline);
  return offer;
}

void greet_server(Connection& connection, const PeerSecrets& secrets, const PeerOffer& offer, Deadline deadline,
                  const std::function<bool()>& admit) {
  check_magic(receive_value<std::array<char, 8>>(connection, deadline));
  const auto other = receive_value<Nonce>(connection, deadline);
  const Nonce own = make_nonce();
  send_values(connection, deadline, kMagic, own, proof(secrets.key, "peer", other, own));
  const auto given = receive_value<Digest>(connection, deadline);
  const auto identity = receive_value<Digest>(connection, deadline);
  if (!equal(given, proof(secrets.key, "server", other, own))) {
    send_values(connection, deadline, PeerVerdict::kOtherKey);
    throw ConnectionLost("it has another key");
  }
  if (!equal(identity, digest_of(sha256(secrets.identity)))) {
    send_values(connection, deadline, PeerVerdict::kOtherIdentity);
    throw ConnectionLost(
        "it serves another model, element type, or has other --activations or another version of sida");
  }
  if (!admit()) {
    send_values(connection, deadline, PeerVerdict::kFull);
    throw ConnectionLost("there is no room for another server");
  }
  send_values(connection, deadline, PeerVerdict::kWelcome, offer.limits, static_cast<uint32_t>(offer.held.size()));
  connection.send(std::as_bytes(std::span(offer.held)), deadline);
}

void check_request(const PeerRequest& request, const ExpertShape& shape, const PeerLimits& limits) {
  const bool fits = request.kind == PeerRequestKind::kExperts && request.layer < shape.layers && request.experts > 0 &&
                    request.experts <= shape.experts_of(request.layer) && request.choices > 0 &&
                    request.choices <= limits.choices && request.rows > 0 && request.rows <= limits.rows;
  if (!fits) throw ConnectionLost("it sent a malformed request");
}

void check_choices(const PeerRequest& request, std::span<const AskedExpert> experts, std::span<const uint32_t> choices,
                   const ExpertShape& shape, std::span<const uint8_t> held) {
  const ExpertId first = shape.first_id(request.layer);
  size_t sum = 0;
  for (size_t i = 0; i < experts.size(); ++i) {
    const auto [index, count] = experts[i];
    const bool ascends = i == 0 || experts[i - 1].index < index;
    if (!ascends || index >= shape.experts_of(request.layer) || held[first + index] == 0 || count == 0) {
      throw ConnectionLost("it asked for an expert that is not held here");
    }
    sum += count;
  }
  const bool rows = std::ranges::all_of(choices, [&](uint32_t row) { return row < request.rows; });
  if (sum != choices.size() || !rows) throw ConnectionLost("it asked for rows that it did not send");
}

}  // namespace sida
