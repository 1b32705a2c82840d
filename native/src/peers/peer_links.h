#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "peers/peer_wire.h"
#include "weights/expert_layout.h"

namespace sida {

struct PeerLinksOptions {
  std::vector<PeerAddress> peers;  ///< none: no expert is asked for elsewhere
  PeerSecrets secrets;
};

/// Of one peer, since the start.
struct PeerLinkStats {
  std::string address;
  bool connected = false;
  std::string error;  ///< why it is not, or why it was not the last time
  uint64_t held = 0;  ///< experts that it holds
  uint64_t requests = 0;
  uint64_t experts = 0;   ///< that it computed
  uint64_t failures = 0;  ///< requests without an answer
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  double round_trip_seconds = 0;  ///< measured when it was connected
  double bytes_per_second = 0;
};

/// Connections to the expert peers of a server. Each has a thread that connects again, once a second and less often
/// where answers failed, and that measures the network again where passes did without the peer. Passes never wait for
/// that.
class PeerLinks {
 public:
  /// Waits until each peer was tried once, for about two seconds at most; one that is not there is no error.
  /// `load_rate`: bytes per second at which experts load here.
  PeerLinks(PeerLinksOptions options, const ExpertLayout& layout, double load_rate);
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  bool any() const { return !links_.empty(); }
  /// True when `held` has changed since the last call; copies (experts of all layers) 1 where a peer that is worth
  /// asking holds the expert.
  bool take_held(std::vector<uint8_t>& held);
  std::vector<PeerLinkStats> stats() const;
  /// Time that passes have waited for answers since the last call.
  uint64_t take_wait_ns() { return std::exchange(wait_ns_, 0); }
  /// Tells how long experts took here; `work`: work_of() of all.
  void learn_local(double seconds, double work);
  /// Bytes of weights of one expert, more where more than four rows take longer than reading them.
  double work_of(size_t layer, size_t rows) const;

 private:
  friend class PeerVisit;
  struct Link;

  void keep_connected(Link& link);
  void connect(Link& link);
  void measure_again(Link& link);
  /// `failed`: an answer did not come, so that the peer is tried less and less often.
  void drop(Link& link, const std::string& error, bool failed);

  PeerLinksOptions options_;
  const ExpertLayout& layout_;
  double load_rate_;
  std::atomic<double> seconds_per_work_;
  uint64_t wait_ns_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  mutable std::mutex mutex_;  ///< of the links; a visit holds it
  // Kept from visit to visit, so that a visit allocates nothing once they have grown.
  std::vector<uint8_t> asked_;    ///< (experts of the layer)
  std::vector<uint32_t> row_of_;  ///< (tokens): row of the question
  std::vector<uint32_t> rows_;    ///< tokens whose rows the question has
  std::atomic<bool> changed_{false};
  std::mutex waking_;
  std::condition_variable wake_;
  bool stopping_ = false;
  size_t untried_ = 0;  ///< links that have not been tried yet
};

}  // namespace sida
