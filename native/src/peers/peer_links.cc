#include "peers/peer_links.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kConnectTime = std::chrono::seconds(2);
constexpr auto kRetryTime = std::chrono::seconds(1);
constexpr auto kLongestRetryTime = std::chrono::seconds(60);
/// A peer without a request for so long, though a pass needed its experts, is measured again: what was measured at a
/// bad moment must not keep it out for ever.
constexpr auto kMeasureAgainTime = std::chrono::seconds(3);
/// Visits in turn that do without a peer until its experts count as if nobody else had them.
constexpr int kDeclinedVisits = 8;
/// A peer may take this long, or four times what it is expected to take.
constexpr double kLeastAnswerSeconds = 0.2;
constexpr double kAnswerFactor = 4;
/// Bytes that show the rate of the link.
constexpr uint32_t kRateBytes = 256 << 10;
constexpr int kRoundTrips = 8;
/// Before the first measurement: 10 GB/s of weights.
constexpr double kFirstSecondsPerWork = 1e-10;
/// How far one observation moves a figure. One that took a thousand times as long moves it no further, because it shows
/// that a thread had to wait and not how fast the network is.
constexpr double kNetworkStep = 1.25;
constexpr double kWorkStep = 1.1;
/// Rows are sent in parts of about this size.
constexpr size_t kMessageBytes = 256 << 10;
constexpr uint32_t kNoRow = UINT32_MAX;

double seconds_since(Deadline begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Moves `value` towards the median of what is seen.
double follow(double value, double seen, double step) { return seen > value ? value * step : value / step; }

}  // namespace

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
  Clock::duration retry_time = kRetryTime;
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

PeerVisit::PeerVisit(PeerLinks& links, size_t layer, const Dispatch& dispatch, std::span<const uint8_t> absent)
    : links_(links), lock_(links.mutex_), layer_(layer), dispatch_(dispatch) {
  choose(absent);
}

PeerVisit::~PeerVisit() {
  for (const auto& link : links_.links_) {
    if (link->waiting) links_.drop(*link, "the pass ended before its answer came", false);
    link->forget_visit();
  }
}

void PeerVisit::choose(std::span<const uint8_t> absent) {
  const size_t row_bytes = links_.layout_.shape.width * sizeof(float);
  const size_t tokens = dispatch_.expert.size() / dispatch_.k;
  const ExpertId first = links_.layout_.shape.first_id(layer_);
  const double load_bytes = static_cast<double>(links_.layout_.layers[layer_].bytes);
  for (const uint16_t index : dispatch_.needed) {
    if (absent[index] == 0) continue;
    const size_t rows = dispatch_.begin[index + 1] - dispatch_.begin[index];
    if (rows == 0) continue;
    Link* best = nullptr;
    for (const auto& link : links_.links_) {
      if (link->connection == nullptr || link->offer.held[first + index] == 0) continue;
      link->passed_over = true;
      const size_t most = tokens <= link->offer.limits.rows
                              ? link->offer.limits.choices
                              : std::min(link->offer.limits.rows, link->offer.limits.choices);
      if (link->choices + rows > most) continue;
      if (best == nullptr || link->expected_seconds() < best->expected_seconds()) best = link.get();
    }
    if (best == nullptr) continue;
    const double work = links_.work_of(layer_, rows);
    const double travel = 2.0 * static_cast<double>(rows * row_bytes) / best->stats.bytes_per_second * best->slowness;
    const double load = load_bytes / links_.load_rate_ + work * links_.seconds_per_work_;
    if (travel + work * best->seconds_per_work >= load) continue;
    best->experts.push_back({index, static_cast<uint32_t>(rows)});
    best->choices += rows;
    best->work += work;
    best->travel_seconds += travel;
    best->load_seconds += load;
  }
  links_.asked_.assign(links_.layout_.shape.experts_of(layer_), 0);
  for (const auto& link : links_.links_) {
    if (!link->experts.empty() && link->load_seconds <= link->expected_seconds()) {
      link->forget_visit();
      link->passed_over = true;
    }
    for (const AskedExpert& expert : link->experts) {
      links_.asked_[expert.index] = 1;
      asked_ = links_.asked_;
    }
    if (!link->passed_over) continue;
    link->declined_visits = link->experts.empty() ? link->declined_visits + 1 : 0;
    const bool worth = link->declined_visits < kDeclinedVisits;
    if (std::exchange(link->worth_asking, worth) != worth) links_.changed_ = true;
  }
}

void PeerVisit::send_question(Link& link, const float* x, Deadline deadline) {
  const size_t width = links_.layout_.shape.width;
  std::vector<uint32_t>& row_of = links_.row_of_;
  row_of.assign(dispatch_.expert.size() / dispatch_.k, kNoRow);
  links_.rows_.clear();
  link.message.resize(sizeof(PeerRequest));
  const auto add = [&](std::span<const std::byte> bytes) {
    link.message.insert(link.message.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(std::span(link.experts)));
  for (const AskedExpert& expert : link.experts) {
    for (uint32_t i = 0; i < expert.count; ++i) {
      const size_t token = dispatch_.order[dispatch_.begin[expert.index] + i] / dispatch_.k;
      if (row_of[token] == kNoRow) {
        row_of[token] = static_cast<uint32_t>(links_.rows_.size());
        links_.rows_.push_back(static_cast<uint32_t>(token));
      }
      add(value_bytes(row_of[token]));
    }
  }
  const PeerRequest request{.layer = static_cast<uint32_t>(layer_),
                            .experts = static_cast<uint32_t>(link.experts.size()),
                            .choices = static_cast<uint32_t>(link.choices),
                            .rows = static_cast<uint32_t>(links_.rows_.size())};
  std::memcpy(link.message.data(), &request, sizeof request);
  const auto send = [&] {
    link.connection->send(link.message, deadline);
    link.sent_bytes += link.message.size();
    link.message.clear();
  };
  for (const uint32_t token : links_.rows_) {
    add(std::as_bytes(std::span(x + token * width, width)));
    if (link.message.size() >= kMessageBytes) send();
  }
  if (!link.message.empty()) send();
}

PeerVisit::Clock::duration PeerVisit::patience() const {
  double most = kLeastAnswerSeconds;
  for (const auto& link : links_.links_) {
    if (!link->experts.empty()) most = std::max(most, kAnswerFactor * link->expected_seconds());
  }
  return duration_of(most);
}

void PeerVisit::send(const float* x) {
  // One deadline for all, so that several frozen peers take no longer than one.
  const Deadline deadline = Clock::now() + patience();
  for (const auto& link : links_.links_) {
    if (link->experts.empty()) continue;
    link->sent_at = link->asked_at = Clock::now();
    link->sent_bytes = 0;
    ++link->stats.requests;
    try {
      send_question(*link, x, deadline);
      link->waiting = true;
    } catch (const ConnectionLost& lost) {
      links_.drop(*link, lost.what(), true);
    }
    link->stats.sent_bytes += link->sent_bytes;
  }
}

std::vector<uint16_t> PeerVisit::receive(float* outputs) {
  const Deadline begin = Clock::now(), deadline = begin + patience();
  std::vector<uint16_t> missing;
  for (const auto& link : links_.links_) {
    if (link->experts.empty()) continue;
    const Deadline began = Clock::now();
    try {
      if (link->waiting) read_answer(*link, outputs, began, deadline);
    } catch (const ConnectionLost& lost) {
      links_.drop(*link, lost.what(), true);
    }
    const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - began).count();
    links_.wait_ns_ += static_cast<uint64_t>(waited);
    if (link->connection != nullptr) continue;
    ++link->stats.failures;
    for (const AskedExpert& expert : link->experts) missing.push_back(static_cast<uint16_t>(expert.index));
  }
  std::ranges::sort(missing);
  return missing;
}

void PeerVisit::read_answer(Link& link, float* outputs, Deadline begin, Deadline deadline) {
  const size_t row_bytes = links_.layout_.shape.width * sizeof(float);
  const bool late = !link.connection->wait(begin);
  PeerReply reply;
  link.connection->receive(value_buffer(reply), deadline);
  for (const AskedExpert& expert : link.experts) {
    auto* const rows = reinterpret_cast<std::byte*>(outputs) + dispatch_.begin[expert.index] * row_bytes;
    link.connection->receive({rows, expert.count * row_bytes}, deadline);
  }
  const double computed = static_cast<double>(reply.compute_ns) / 1e9;
  link.seconds_per_work = follow(link.seconds_per_work, computed / link.work, kWorkStep);
  const double answer_bytes = static_cast<double>(sizeof reply + link.choices * row_bytes);
  // An answer that was here already shows only how long the experts took here.
  if (late) {
    const double bytes = static_cast<double>(link.sent_bytes) + answer_bytes;
    const double usual = link.stats.round_trip_seconds + bytes / link.stats.bytes_per_second;
    const double network = std::max(seconds_since(link.sent_at) - computed, 0.0);
    link.slowness = follow(link.slowness, network / usual, kNetworkStep);
  }
  link.stats.received_bytes += static_cast<uint64_t>(answer_bytes);
  link.stats.experts += link.experts.size();
  link.retry_time = kRetryTime;
  link.waiting = false;
}

}  // namespace sida
