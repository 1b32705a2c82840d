#include "core/profile.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "core/error.h"

namespace sida {
namespace profile_detail {

std::atomic<Arena*> active{nullptr};

// A thread takes another chunk when its chunk is full, so a busy thread gets more of the memory than an idle one.
constexpr size_t kChunkEvents = 1024;

struct Chunk {
  uint32_t thread = 0;
  uint32_t count = 0;
  ProfileEvent events[kChunkEvents];
};

struct Arena {
  Arena(uint64_t number, size_t chunks) : number(number), chunks(chunks) {}

  const uint64_t number;  ///< of the recording; an arena's address may be used again
  std::vector<Chunk> chunks;
  std::atomic<size_t> taken{0};
  std::atomic<uint64_t> dropped{0};
  uint64_t begin_ns = 0;
};

namespace {

/// A thread that has recorded or has a name. Only the thread itself writes its part of an arena, and `writing` keeps
/// the arena alive while it does.
struct ThreadState {
  uint32_t thread = 0;
  std::string name;
  bool ended = false;
  std::atomic<Arena*> writing{nullptr};
  uint64_t recording = 0;  ///< number of the arena that `chunk` belongs to
  Chunk* chunk = nullptr;
};

struct Registry {
  std::mutex mutex;
  std::list<ThreadState> threads;
  std::unique_ptr<Arena> arena;  ///< of the running recording
  uint64_t recordings = 0;
  uint32_t numbers = 0;
};

/// Never destroyed: threads may outlive the destructors that run when the process exits.
Registry& registry() {
  static auto* const registry = new Registry;
  return *registry;
}

/// The place of a thread in the registry, until it ends.
class Registration {
 public:
  Registration() {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    state_ = &all.threads.emplace_back();
    state_->thread = ++all.numbers;
  }
  ~Registration() {
    Registry& all = registry();
    std::lock_guard lock(all.mutex);
    state_->ended = true;
    // The recording still needs the thread's name.
    if (!all.arena) all.threads.remove_if([](const ThreadState& each) { return each.ended; });
  }

  ThreadState& state() { return *state_; }

 private:
  ThreadState* state_;
};

ThreadState& this_thread() {
  thread_local Registration registration;
  return registration.state();
}

Chunk* take_chunk(Arena& arena, const ThreadState& state) {
  // Without this the counter would wrap after enough dropped events.
  if (arena.taken.load(std::memory_order_relaxed) >= arena.chunks.size()) return nullptr;
  const size_t index = arena.taken.fetch_add(1, std::memory_order_relaxed);
  if (index >= arena.chunks.size()) return nullptr;
  arena.chunks[index].thread = state.thread;
  return &arena.chunks[index];
}

void write(Arena& arena, ThreadState& state, const ProfileEvent& event) {
  if (event.begin_ns < arena.begin_ns) return;
  if (state.recording != arena.number) {
    state.recording = arena.number;
    state.chunk = nullptr;
  }
  if (state.chunk == nullptr || state.chunk->count == kChunkEvents) state.chunk = take_chunk(arena, state);
  if (state.chunk == nullptr) {
    arena.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  state.chunk->events[state.chunk->count++] = event;
}

}  // namespace
}  // namespace profile_detail

using namespace profile_detail;

void profile_start(uint64_t bytes) {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (all.arena) throw Error("cannot_run", "a profile is being recorded already");
  const size_t chunks = std::max<size_t>(1, bytes / sizeof(Chunk));
  try {
    all.arena = std::make_unique<Arena>(++all.recordings, chunks);
  } catch (const std::bad_alloc&) {
    throw Error("out_of_memory", "no memory for a profile of " + std::to_string(bytes) + " bytes",
                {{"needed_bytes", static_cast<double>(bytes)}});
  }
  all.arena->begin_ns = profile_now();
  active.store(all.arena.get());
}

Profile profile_stop() {
  Registry& all = registry();
  std::lock_guard lock(all.mutex);
  if (!all.arena) throw Error("cannot_run", "no profile is being recorded");
  Arena& arena = *all.arena;
  active.store(nullptr);
  Profile profile;
  profile.begin_ns = arena.begin_ns;
  profile.end_ns = profile_now();
  // A thread that saw the arena earlier finishes within one event.
  for (const ThreadState& state : all.threads) {
    while (state.writing.load() == &arena) std::this_thread::yield();
  }
  for (const ThreadState& state : all.threads) {
    ProfileLane lane;
    lane.thread = state.thread;
    lane.name = state.name.empty() ? "thread " + std::to_string(state.thread) : state.name;
    for (size_t i = 0; i < std::min(arena.taken.load(), arena.chunks.size()); ++i) {
      const Chunk& chunk = arena.chunks[i];
      if (chunk.thread != state.thread) continue;
      lane.events.insert(lane.events.end(), chunk.events, chunk.events + chunk.count);
    }
    if (!lane.events.empty()) profile.lanes.push_back(std::move(lane));
  }
  profile.dropped = arena.dropped.load();
  all.arena.reset();
  all.threads.remove_if([](const ThreadState& state) { return state.ended; });
  return profile;
}

void profile_record(ProfileOp op, uint64_t begin_ns, const ProfileArgs& args) {
  if (!profile_on()) return;
  ThreadState& state = this_thread();
  Arena* arena = active.load();
  for (;;) {
    // Set before the second look at `active`: profile_stop() waits for every thread whose `writing` it sees.
    state.writing.store(arena);
    Arena* const now = active.load();
    if (now == arena) break;
    arena = now;
  }
  const uint64_t end_ns = profile_now();
  if (arena != nullptr) write(*arena, state, {begin_ns, end_ns - begin_ns, args, op});
  state.writing.store(nullptr, std::memory_order_release);
}

void profile_name_thread(const std::string& name) {
  ThreadState& state = this_thread();
  std::lock_guard lock(registry().mutex);
  state.name = name;
}

}  // namespace sida
