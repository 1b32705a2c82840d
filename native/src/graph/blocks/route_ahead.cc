#include "graph/blocks/route_ahead.h"

#include <algorithm>
#include <span>

#include "core/profile.h"

namespace sida {
namespace {

constexpr float kMemory = 512;
/// Trials that are counted as failures, so that little evidence loads nothing.
constexpr float kDoubt = 4;

}  // namespace

RouteAhead::RouteAhead(const ModelSpec& spec, const ModelWeights& weights, Ops& ops, ExpertStore& experts)
    : ops_(ops), experts_(experts) {
  for (size_t stack = 0; stack < spec.stacks.size(); ++stack) {
    for (size_t i = 0; i < spec.stacks[stack].layers.size(); ++i) {
      const MoeSpec* moe = spec.stacks[stack].layers[i].moe();
      if (moe != nullptr) layers_.push_back({moe, &weights.stacks[stack].layers[i].feed_forward, stack});
    }
  }
  named_.resize(layers_.size());
  unneeded_.assign(spec.experts(), 1);
  absent_.resize(experts.layout().experts());
}

void RouteAhead::Share::learn(bool holds) {
  held += holds;
  if (++trials < kMemory) return;
  held /= 2;
  trials /= 2;
}

double RouteAhead::Share::value() const { return held / (trials + kDoubt); }

void RouteAhead::start_pass() {
  for (auto& distances : named_) {
    for (Named& named : distances) named.experts.clear();
  }
}

void RouteAhead::judge(size_t layer, const Dispatch& chosen) {
  const size_t k = chosen.k;
  for (Named& named : named_[layer]) {
    for (size_t i = 0; i < named.experts.size(); ++i) {
      if (named.absent[i] == 0) continue;
      const auto row = std::span(chosen.expert).subspan(i / k * k, k);
      named.shares[i % k].learn(std::find(row.begin(), row.end(), named.experts[i]) != row.end());
    }
    named.experts.clear();
  }
}

void RouteAhead::begin(size_t layer, size_t tokens, size_t distance) {
  later_.clear();
  if (tokens <= kMostTokens && experts_.slots() < absent_.size()) {
    distance = std::min(distance, layers_.size());
    if (dispatches_.size() < distance) dispatches_.resize(distance);
    for (size_t next = layer + 1; later_.size() < distance && next < layers_.size(); ++next) {
      if (layers_[next].stack != layers_[layer].stack) break;
      later_.push_back({layers_[next].weights, &layers_[next].spec->router, &dispatches_[later_.size()]});
    }
  }
  ops_.queue_ahead(later_, tokens);
}

void RouteAhead::name(size_t layer, size_t time, size_t tokens) {
  needs_.clear();
  if (!later_.empty()) {
    const ProfileScope scope(ProfileOp::kRouteAhead);
    ops_.choose_ahead(later_, tokens);
    for (size_t ahead = 1; ahead <= later_.size(); ++ahead) {
      auto& distances = named_[layer + ahead];
      if (distances.size() < ahead) distances.resize(ahead);
      name_layer(layer + ahead, static_cast<double>(time + ahead), dispatches_[ahead - 1], distances[ahead - 1]);
    }
  }
  experts_.foresee(needs_);
  for (const ForeseenNeed& need : needs_) absent_[need.id] = need.absent;
  for (size_t ahead = 1; ahead <= later_.size(); ++ahead) {
    Named& named = named_[layer + ahead][ahead - 1];
    const ExpertId first = experts_.layout().shape.first_id(layer + ahead);
    named.absent.resize(named.experts.size());
    for (size_t i = 0; i < named.experts.size(); ++i) named.absent[i] = absent_[first + named.experts[i]];
  }
}

void RouteAhead::name_layer(size_t layer, double time, const Dispatch& chosen, Named& named) {
  named.shares.resize(chosen.k);
  named.experts.assign(chosen.expert.begin(), chosen.expert.end());
  for (size_t i = 0; i < named.experts.size(); ++i) {
    unneeded_[named.experts[i]] *= 1 - named.shares[i % chosen.k].value();
  }
  const auto begin = static_cast<std::ptrdiff_t>(needs_.size());
  const ExpertId first = experts_.layout().shape.first_id(layer);
  for (const uint16_t expert : named.experts) {
    if (unneeded_[expert] > 1) continue;  // listed already
    needs_.push_back({first + expert, time, 1 - unneeded_[expert]});
    unneeded_[expert] = 2;
  }
  for (const uint16_t expert : named.experts) unneeded_[expert] = 1;
  std::sort(needs_.begin() + begin, needs_.end(), [](const ForeseenNeed& a, const ForeseenNeed& b) {
    return a.chance != b.chance ? a.chance > b.chance : a.id < b.id;
  });
}

}  // namespace sida
