#pragma once

#include <algorithm>
#include <cstddef>

namespace sida {

/// From which chance on it pays to load an expert before its layer says whether it needs it. A right load saves the
/// time for which the link would have idled, a wrong one takes the rest of its time from loads that are needed. With
/// idle time I between the loads of two layers, and time T of a load, chance · min(I, T) must reach
/// (1 - chance) · (T - I), so the chance 1 - I / T. Idle is the time in which no layer waited, and a load takes as long
/// as layers waited for one. Both are learned over about the last kMemory layers that waited. In seconds.
class LinkIdle {
 public:
  static constexpr double kMemory = 64;

  /// Time before a pass's first layer counts neither as idle nor as waiting.
  void pass_begins() { running_ = false; }
  /// A layer begins at `now` and has `loads` experts to wait for.
  void layer_begins(double now, size_t loads) {
    if (running_ && loads_ > 0) {
      load_ += stalled_ / static_cast<double>(loads_);
      if (++layers_ >= kMemory) {
        for (double* sum : {&idle_, &load_, &layers_}) *sum /= 2;
      }
    }
    // More than a load takes is worth no more, so that one long prompt says little about the steps after it.
    if (running_ && layers_ > 0) idle_ += std::clamp(now - began_ - stalled_, 0.0, load_ / layers_);
    running_ = true;
    began_ = now;
    stalled_ = 0;
    loads_ = loads;
  }
  /// The running layer waited for its loads.
  void waits(double seconds) { stalled_ += seconds; }

  /// At most 0 where the link idles for longer than a load takes, and while nothing is known.
  double least_chance() const { return load_ > 0 ? 1 - idle_ / load_ : 0; }

 private:
  bool running_ = false;
  double began_ = 0, stalled_ = 0;
  size_t loads_ = 0;
  double idle_ = 0, load_ = 0, layers_ = 0;
};

}  // namespace sida
