#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/profile_ops.h"

namespace sida {

/// What an op worked on; -1 where it says nothing.
struct ProfileArgs {
  int32_t layer = -1;   ///< of its stack for `layer`, flat MoE layer elsewhere
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
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

/// Whether a recording runs. One load; a build without the recorder, to compare with, has not even that.
inline bool profile_on() {
#ifdef SIDA_WITHOUT_PROFILE
  return false;
#else
  return profile_detail::active.load(std::memory_order_relaxed) != nullptr;
#endif
}

/// Begins the process's recording, of all threads, into at most `bytes` that are allocated and touched now.
/// Throws cannot_run while another runs, out_of_memory.
void profile_start(uint64_t bytes);

/// Ends it and frees its memory. Events that have not ended are not in it. Throws cannot_run where none runs.
Profile profile_stop();

/// Records an event of the calling thread that ends now. Neither allocates, locks nor waits, but for the
/// first event of a thread's life; what finds no room is counted. Nothing happens where no recording runs, or
/// where the event began before it.
void profile_record(ProfileOp op, uint64_t begin_ns, const ProfileArgs& args);

/// A moment: an event without length.
inline void profile_mark(ProfileOp op, const ProfileArgs& args) {
  if (profile_on()) profile_record(op, profile_now(), args);
}

/// Names the calling thread in profiles to come.
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
  /// Bytes are known once they have moved: an op that fails has none.
  void moved(uint64_t bytes) { args_.bytes = static_cast<int64_t>(bytes); }
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  uint64_t begin_ns_ = 0;
  ProfileArgs args_;
  ProfileOp op_;
};

}  // namespace sida
