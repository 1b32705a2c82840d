#pragma once

#include <algorithm>
#include <vector>

#include "core/profile.h"

namespace sida::testing {

inline uint64_t end_of(const ProfileEvent& event) { return event.begin_ns + event.duration_ns; }

/// Whether any two events of the lane are apart, or one lies within the other.
inline bool nests(const ProfileLane& lane) {
  std::vector<ProfileEvent> events = lane.events;
  std::stable_sort(events.begin(), events.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.duration_ns > b.duration_ns;
  });
  std::vector<uint64_t> open;
  for (const ProfileEvent& event : events) {
    while (!open.empty() && open.back() <= event.begin_ns) open.pop_back();
    if (!open.empty() && end_of(event) > open.back()) return false;
    open.push_back(end_of(event));
  }
  return true;
}

}  // namespace sida::testing
