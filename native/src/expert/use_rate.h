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

  /// What the next turn weighs in each average, after this many turns. The first turns are averaged as they are; half
  /// a turn stands for those before them. The experts of a layer have had the same turns.
  class Weights {
   public:
    explicit Weights(uint64_t turns) {
      for (size_t i = 0; i < kWindows.size(); ++i) {
        each_[i] = 1 / std::min(static_cast<double>(turns) + 1.5, kWindows[i]);
      }
    }
    /// By how much a turn that needs an expert raises its value above that of a turn that does not.
    double gain() const { return mean(each_); }

   private:
    friend class UseRate;
    std::array<double, kWindows.size()> each_;
  };

  /// The average over each window. They lie apart from the rest, which plans read for every expert.
  using Shares = std::array<double, kWindows.size()>;

  /// The layer has had a turn, which was the `visit`-th of all layers. `now` are the weights of its turns before,
  /// `next` those after it.
  void turn(bool needed, uint64_t visit, const Weights& now, const Weights& next, Shares& shares) {
    Shares unneeded;
    for (size_t i = 0; i < kWindows.size(); ++i) {
      shares[i] += ((needed ? 1 : 0) - shares[i]) * now.each_[i];
      unneeded[i] = shares[i] - shares[i] * next.each_[i];
    }
    value_ = mean(shares);
    unneeded_ = mean(unneeded);
    ++turns_;
    last_turn_ = visit;
  }
  uint64_t turns() const { return turns_; }
  uint64_t last_turn() const { return last_turn_; }
  /// From 0 to 1.
  double value() const { return value_; }
  /// The value if one more turn did not need the expert.
  double unneeded() const { return unneeded_; }

 private:
  static double mean(const std::array<double, kWindows.size()>& each) {
    double sum = 0;
    for (const double one : each) sum += one;
    return sum / kWindows.size();
  }

  uint64_t turns_ = 0;
  uint64_t last_turn_ = 0;
  double value_ = 0;
  double unneeded_ = 0;
};

}  // namespace sida
