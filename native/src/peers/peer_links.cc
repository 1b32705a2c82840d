#include "peers/peer_links.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "peers/peer_link.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kConnectTime = std::chrono::seconds(2);
constexpr auto kLongestRetryTime = std::chrono::seconds(60);
/// A peer without a request for so long, though a pass needed its experts, is measured again: what was measured at a
/// bad moment must not keep it out for ever.
constexpr auto kMeasureAgainTime = std::chrono::seconds(3);
/// Bytes that show the rate of the link.
constexpr uint32_t kRateBytes = 256 << 10;
constexpr int kRoundTrips = 8;
/// Before the first measurement: 10 GB/s of weights.
constexpr double kFirstSecondsPerWork = 1e-10;
double seconds_since(Deadline begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

double PeerLinks::Link::echo(uint32_t bytes, Deadline deadline) {
  message.assign(sizeof(PeerRequest) + bytes, std::byte{0});
  const PeerRequest request{.kind = PeerRequestKind::kEcho, .rows = bytes};
  std::memcpy(message.data(), &request, sizeof request);
  const auto begin = Clock::now();
  connection->send(message, deadline);
  connection->receive(std::span(message).first(bytes), deadline);
  return seconds_since(begin);
}

void PeerLinks::Link::measure(Deadline deadline) {
  double round_trip = echo(1, deadline);
  for (int i = 1; i < kRoundTrips; ++i) round_trip = std::min(round_trip, echo(1, deadline));
  echo(kRateBytes, deadline);  // lets TCP's window grow
  const double seconds = echo(kRateBytes, deadline);
  stats.round_trip_seconds = round_trip;
  stats.bytes_per_second = 2.0 * kRateBytes / std::max(seconds - round_trip, 1e-6);
}

PeerLinks::PeerLinks(PeerLinksOptions options, const ExpertLayout& layout, double load_rate)
    : options_(std::move(options)), layout_(layout), load_rate_(load_rate), seconds_per_work_(kFirstSecondsPerWork) {
  for (const PeerAddress& address : options_.peers) {
    Link& link = *links_.emplace_back(std::make_unique<Link>());
    link.address = address;
    link.stats.address = address.text();
  }
  untried_ = links_.size();
  for (const auto& link : links_) link->connector = std::thread([this, &link = *link] { keep_connected(link); });
  std::unique_lock waking(waking_);
  wake_.wait_for(waking, kConnectTime + std::chrono::milliseconds(100), [&] { return untried_ == 0; });
}

PeerLinks::~PeerLinks() {
  {
    std::lock_guard lock(waking_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (const auto& link : links_) link->connector.join();
}

void PeerLinks::keep_connected(Link& link) {
  connect(link);
  std::unique_lock waking(waking_);
  --untried_;
  wake_.notify_all();
  auto pause = [&] {
    std::lock_guard lock(mutex_);
    return link.connection == nullptr ? link.retry_time : Clock::duration(kRetryTime);
  };
  for (auto time = pause(); !wake_.wait_for(waking, time, [&] { return stopping_; }); time = pause()) {
    waking.unlock();
    bool connected, unasked;
    {
      std::lock_guard lock(mutex_);
      // Nothing is expected between visits, so a connection that can be read was closed.
      if (link.connection != nullptr && link.connection->wait(Clock::now())) drop(link, "it has ended", false);
      connected = link.connection != nullptr;
      unasked = link.declined_visits > 0 && Clock::now() - link.asked_at > kMeasureAgainTime;
    }
    if (!connected) connect(link);
    if (connected && unasked) measure_again(link);
    waking.lock();
  }
}

void PeerLinks::connect(Link& link) {
  Link fresh;
  std::string error;
  try {
    const Deadline deadline = Clock::now() + kConnectTime;
    fresh.connection = connect_tcp(link.address, deadline);
    fresh.offer = greet_peer(*fresh.connection, options_.secrets, layout_.experts(), deadline);
    fresh.measure(deadline);
  } catch (const ConnectionLost& lost) {
    error = lost.what();
  }
  std::lock_guard lock(mutex_);
  link.stats.error = error;
  if (!error.empty()) return;
  link.connection = std::move(fresh.connection);
  link.offer = std::move(fresh.offer);
  link.slowness = 1;
  link.seconds_per_work = seconds_per_work_;
  link.worth_asking = true;
  link.declined_visits = 0;
  link.asked_at = Clock::now();
  link.stats.connected = true;
  link.stats.held = static_cast<uint64_t>(std::ranges::count(link.offer.held, 1));
  link.stats.round_trip_seconds = fresh.stats.round_trip_seconds;
  link.stats.bytes_per_second = fresh.stats.bytes_per_second;
  changed_ = true;
}

void PeerLinks::measure_again(Link& link) {
  Link fresh;
  {
    std::lock_guard lock(mutex_);
    if (link.connection == nullptr) return;
    // Visits do without the peer meanwhile.
    fresh.connection = std::move(link.connection);
  }
  std::string error;
  try {
    fresh.measure(Clock::now() + kConnectTime);
  } catch (const ConnectionLost& lost) {
    error = lost.what();
  }
  std::lock_guard lock(mutex_);
  if (!error.empty()) return drop(link, error, false);
  link.connection = std::move(fresh.connection);
  link.slowness = 1;
  // Only answers show how fast the peer computes. It is tried again after some measurements.
  link.seconds_per_work = (link.seconds_per_work + seconds_per_work_) / 2;
  link.asked_at = Clock::now();
  link.stats.round_trip_seconds = fresh.stats.round_trip_seconds;
  link.stats.bytes_per_second = fresh.stats.bytes_per_second;
}

void PeerLinks::drop(Link& link, const std::string& error, bool failed) {
  link.connection = nullptr;
  link.stats.connected = false;
  link.stats.held = 0;
  link.stats.error = error;
  link.waiting = false;
  if (failed) link.retry_time = std::min<Clock::duration>(2 * link.retry_time, kLongestRetryTime);
  changed_ = true;
}

bool PeerLinks::take_held(std::vector<uint8_t>& held) {
  if (!changed_.exchange(false)) return false;
  std::lock_guard lock(mutex_);
  held.assign(layout_.experts(), 0);
  for (const auto& link : links_) {
    if (!link->stats.connected || !link->worth_asking) continue;
    for (size_t id = 0; id < held.size(); ++id) held[id] |= link->offer.held[id];
  }
  return true;
}

std::vector<PeerLinkStats> PeerLinks::stats() const {
  std::lock_guard lock(mutex_);
  std::vector<PeerLinkStats> all;
  for (const auto& link : links_) all.push_back(link->stats);
  return all;
}

void PeerLinks::learn_local(double seconds, double work) {
  if (work > 0) seconds_per_work_ = follow(seconds_per_work_, seconds / work, kWorkStep);
}

double PeerLinks::work_of(size_t layer, size_t rows) const {
  return static_cast<double>(layout_.layers[layer].bytes) * static_cast<double>(std::max<size_t>(rows, 4)) / 4;
}

}  // namespace sida
