#pragma once

#include <algorithm>
#include <cstddef>

namespace sida {

/// From which chance on it pays to load an expert before its layer says whether it needs it. A right load saves the
/// time for which the link would have idled, a wrong one takes the rest of its time from loads that are needed. With
/// idle time I between the loads of two layers, and time T of a load, chance · min(I, T) must reach
/// (1 - chance) · (T - I), so the chance 1 - I / T. Both times are learned as layers run, over about the last kMemory
/// that waited. In seconds.
class LinkIdle {
 public:
  static constexpr double kMemory = 64;

  /// Time before a pass's first layer counts neither as idle nor as waiting.
  void pass_begins() { running_ = false; }
  /// A layer begins at `now` and has `loads` experts to wait for.
  void layer_begins(double now, size_t loads) {
    if (running_) idle_ += std::max(0.0, now - began_ - stalled_);
    if (running_ && loads_ > 0) {
      waited_ += stalled_;
      loaded_ += static_cast<double>(loads_);
      if (++layers_ >= kMemory) {
        for (double* sum : {&idle_, &waited_, &loaded_, &layers_}) *sum /= 2;
      }
    }
    running_ = true;
    began_ = now;
    stalled_ = 0;
    loads_ = loads;
  }
  /// The running layer waited for its loads.
  void waits(double seconds) { stalled_ += seconds; }

  /// Below 0 where the link idles for longer than a load takes, and while nothing is known.
  double least_chance() const {
    return waited_ > 0 ? 1 - (idle_ / layers_) / (waited_ / loaded_) : 0;
  }

 private:
  bool running_ = false;
  double began_ = 0, stalled_ = 0;
  size_t loads_ = 0;
  double idle_ = 0, waited_ = 0, loaded_ = 0, layers_ = 0;
};

}  // namespace sida
