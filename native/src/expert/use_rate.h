#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace sida {

/// The share of its layer's turns that need an expert, where recent turns weigh more: the mean of exponential averages
/// over windows of several lengths, so that no single one has to suit the text. After LRFU (Lee et al., "LRFU: A
/// Spectrum of Policies that Subsumes the Least Recently Used and Least Frequently Used Policies", 2001).
class UseRate {
 public:
  /// In turns.
  static constexpr std::array<double, 6> kWindows{2, 8, 32, 128, 512, 2048};

  /// The layer has had a turn, which was the `visit`-th of all layers.
  void turn(bool needed, uint64_t visit) {
    for (size_t i = 0; i < kWindows.size(); ++i) shares_[i] = moved(i, needed);
    ++turns_;
    last_turn_ = visit;
  }
  uint64_t turns() const { return turns_; }
  uint64_t last_turn() const { return last_turn_; }
  /// From 0 to 1.
  double value() const {
    return mean([&](size_t i) { return shares_[i]; });
  }
  /// What the next turn weighs in each average, after this many turns. The first turns are averaged as they are; half
  /// a turn stands for those before them. The experts of a layer have had the same turns.
  static std::array<double, kWindows.size()> weights(uint64_t turns) {
    std::array<double, kWindows.size()> weights;
    for (size_t i = 0; i < kWindows.size(); ++i) {
      weights[i] = 1 / std::min(static_cast<double>(turns) + 1.5, kWindows[i]);
    }
    return weights;
  }
  /// The value if one more turn did not need the expert; `weights` are those of its turns.
  double unneeded(const std::array<double, kWindows.size()>& weights) const {
    return mean([&](size_t i) { return shares_[i] - shares_[i] * weights[i]; });
  }
  /// By how much the value would be larger if that turn needed it.
  static double gain(const std::array<double, kWindows.size()>& weights) {
    return mean([&](size_t i) { return weights[i]; });
  }

 private:
  /// A share after the next turn.
  double moved(size_t i, bool needed) const {
    const double window = std::min(static_cast<double>(turns_) + 1.5, kWindows[i]);
    return shares_[i] + ((needed ? 1 : 0) - shares_[i]) / window;
  }
  template <typename Share>
  static double mean(Share share) {
    double sum = 0;
    for (size_t i = 0; i < kWindows.size(); ++i) sum += share(i);
    return sum / kWindows.size();
  }

  uint64_t turns_ = 0;
  uint64_t last_turn_ = 0;
  std::array<double, kWindows.size()> shares_{};
};

}  // namespace sida
