#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/profile_ops.h"

namespace sida {

/// What an op worked on. -1: not given.
struct ProfileArgs {
  int32_t layer = -1;   ///< index in the stack for the op `layer`, flat MoE layer for all others
  int32_t expert = -1;  ///< index in its layer
  int32_t tokens = -1;
  int32_t batch = -1;
  int64_t bytes = -1;
};

struct ProfileEvent {
  uint64_t begin_ns = 0;  ///< of profile_now()
  uint64_t duration_ns = 0;
  ProfileArgs args;
  ProfileOp op = ProfileOp::kCount;
};

/// Everything one thread recorded, in the order in which its events ended.
struct ProfileLane {
  uint32_t thread = 0;  ///< number of its own
  std::string name;     ///< as the thread was named, else "thread N"
  std::vector<ProfileEvent> events;
};

struct Profile {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t dropped = 0;  ///< events that found no room
  std::vector<ProfileLane> lanes;
};

namespace profile_detail {

struct Arena;
extern std::atomic<Arena*> active;

}  // namespace profile_detail

/// Nanoseconds of the monotonic clock, the same for all threads (on Linux also that of process.hrtime).
inline uint64_t profile_now() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

/// Whether a recording runs. Costs one load, and nothing in a build without the recorder (SIDA_PROFILE=OFF).
inline bool profile_on() {
#ifdef SIDA_WITHOUT_PROFILE
  return false;
#else
  return profile_detail::active.load(std::memory_order_relaxed) != nullptr;
#endif
}

/// Begins the recording of all threads of the process, into at most `bytes` of memory, which is allocated and touched
/// now. Throws cannot_run while another recording runs, and out_of_memory.
void profile_start(uint64_t bytes);

/// Ends the recording and frees its memory. It holds only events that have ended. Throws cannot_run where none runs.
Profile profile_stop();

/// Records an event of the calling thread that ends now. Does not allocate, lock or wait, except for the first event of
/// a thread. An event that finds no room is counted as dropped. Does nothing where no recording runs or where the event
/// began before the recording.
void profile_record(ProfileOp op, uint64_t begin_ns, const ProfileArgs& args);

/// Records an event without duration.
inline void profile_mark(ProfileOp op, const ProfileArgs& args) {
  if (profile_on()) profile_record(op, profile_now(), args);
}

/// Names the calling thread in later profiles.
void profile_name_thread(const std::string& name);

/// An event from here to the end of the block.
class ProfileScope {
 public:
  explicit ProfileScope(ProfileOp op, const ProfileArgs& args = {}) : op_(op) {
    if (!profile_on()) return;
    begin_ns_ = profile_now();
    args_ = args;
  }
  ~ProfileScope() {
    if (begin_ns_ != 0) profile_record(op_, begin_ns_, args_);
  }
  /// Sets the event's bytes once they have moved. An op that fails has none.
  void moved(uint64_t bytes) { args_.bytes = static_cast<int64_t>(bytes); }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  uint64_t begin_ns_ = 0;
  ProfileArgs args_;
  ProfileOp op_;
};

}  // namespace sida
