#include "peers/peer_visit.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "expert/residency_table.h"
#include "peers/peer_link.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

/// Visits in turn that do without a peer until its experts count as if nobody else had them.
constexpr int kDeclinedVisits = 8;
/// A peer may take this long, or four times what it is expected to take.
constexpr double kLeastAnswerSeconds = 0.2;
constexpr double kAnswerFactor = 4;
/// How far one observation moves a figure. One that took a thousand times as long moves it no further, because it shows
/// that a thread had to wait and not how fast the network is.
constexpr double kNetworkStep = 1.25;
/// Rows are sent in parts of about this size.
constexpr size_t kMessageBytes = 256 << 10;
constexpr uint32_t kNoRow = UINT32_MAX;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

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
      links_.asked_[expert.index] = static_cast<uint8_t>(Found::kPeer);
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
    const double network = std::max(std::chrono::duration<double>(Clock::now() - link.sent_at).count() - computed, 0.0);
    link.slowness = follow(link.slowness, network / usual, kNetworkStep);
  }
  link.stats.received_bytes += static_cast<uint64_t>(answer_bytes);
  link.stats.experts += link.experts.size();
  link.retry_time = kRetryTime;
  link.waiting = false;
}

}  // namespace sida
