#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "ops/dispatch.h"
#include "peers/peer_links.h"

namespace sida {

/// One layer's questions to the peers: choose, send, compute what is here, receive.
class PeerVisit {
 public:
  /// Chooses which of the needed experts that are `absent` (experts of the layer: 1) to ask for: those whose rows
  /// travel sooner than the expert would load.
  PeerVisit(PeerLinks& links, size_t layer, const Dispatch& dispatch, std::span<const uint8_t> absent);
  /// Drops the connections whose answers were not received, because nothing else could be read from them.
  ~PeerVisit();
  PeerVisit(const PeerVisit&) = delete;
  PeerVisit& operator=(const PeerVisit&) = delete;

  /// (experts of the layer): Found::kPeer where a peer is asked, else 0. Empty where none is.
  std::span<const uint8_t> asked() const { return asked_; }
  /// Sends rows of x (tokens, width).
  void send(const float* x);
  /// Waits for the answers, and writes them to `outputs` (choices, width), in the order of dispatch.order. Returns the
  /// experts for which no answer came in time: they must be computed here.
  std::vector<uint16_t> receive(float* outputs);

 private:
  using Link = PeerLinks::Link;
  using Clock = std::chrono::steady_clock;

  void choose(std::span<const uint8_t> absent);
  /// The time of the slowest answer that is waited for.
  Clock::duration patience() const;
  void send_question(Link& link, const float* x, Deadline deadline);
  void read_answer(Link& link, float* outputs, Deadline begin, Deadline deadline);

  PeerLinks& links_;
  std::unique_lock<std::mutex> lock_;
  size_t layer_;
  const Dispatch& dispatch_;
  std::span<const uint8_t> asked_;
};

}  // namespace sida
