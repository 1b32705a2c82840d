#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "core/follow.h"
#include "peers/peer_links.h"

namespace sida {

/// At first, and after a good answer.
inline constexpr auto kRetryTime = std::chrono::seconds(1);

/// One peer: its connection, what is known of it, and what the running visit asks it for.
struct PeerLinks::Link {
  std::unique_ptr<Connection> connection;  ///< null: not connected
  PeerAddress address;
  PeerOffer offer;
  PeerLinkStats stats;
  double slowness = 1;          ///< of the network: time over what was measured
  double seconds_per_work = 0;  ///< of the peer
  bool worth_asking = true;
  int declined_visits = 0;  ///< in turn
  Deadline asked_at;        ///< or measured
  std::chrono::steady_clock::duration retry_time = kRetryTime;
  std::thread connector;

  // Of the running visit.
  std::vector<AskedExpert> experts;
  size_t choices = 0;
  double work = 0;
  double travel_seconds = 0;  ///< of the rows, expected
  double load_seconds = 0;    ///< if the experts were loaded here instead
  bool passed_over = false;   ///< holds a needed expert that it is not asked for
  bool waiting = false;       ///< for an answer
  Deadline sent_at;
  size_t sent_bytes = 0;
  std::vector<std::byte> message;

  double expected_seconds() const {
    return stats.round_trip_seconds * slowness + travel_seconds + work * seconds_per_work;
  }
  void forget_visit() {
    experts.clear();
    choices = 0;
    work = travel_seconds = load_seconds = 0;
    passed_over = waiting = false;
  }
  void measure(Deadline deadline);
  double echo(uint32_t bytes, Deadline deadline);
};

}  // namespace sida
