#include "ops/cuda/find_experts.h"
#include "ops/cuda/gemm_arguments.cuh"

namespace sida::cuda {
namespace {

constexpr unsigned kFindThreads = 256;
constexpr uint32_t kMost = kMostDeviceChoices;
static_assert(kFindThreads >= kMost && kFindThreads >= kMostLentPrefetches);

/// A slot that may be taken, and the order in which slots are.
struct Victim {
  double key;
  uint64_t last_use;
  uint32_t expert;
  uint32_t slot;  ///< kNothing: none

  __device__ bool before(const Victim& other, bool newest_first) const {
    if (slot == kNothing || other.slot == kNothing) return slot < other.slot;
    if ((expert == kNothing) != (other.expert == kNothing)) return expert == kNothing;
    if (expert == kNothing) return slot < other.slot;
    if (key != other.key) return key > other.key;
    if (last_use != other.last_use) return (last_use < other.last_use) != newest_first;
    return (expert > other.expert) != newest_first;
  }
};

/// `last_use` of what the layer needs begins behind this.
__device__ uint64_t turn_begins(const FindTask& t, uint64_t clock) { return clock + uint64_t{t.turn} * kMost; }

__device__ double key_of(const FindTask& t, const TableHead& head, ExpertId id) {
  const TableExpert& expert = t.table.experts[id];
  if (expert.last_use > head.clock) return expert.key_after;
  const bool unneeded = id >= t.first_of_pass && id < t.end;
  return unneeded ? expert.key_unneeded : expert.key;
}

/// The first victim of this thread's slots.
__device__ Victim find_victim(const FindTask& t, const TableHead& head) {
  Victim best{0, 0, kNothing, kNothing};
  for (uint32_t slot = threadIdx.x; slot < head.slots; slot += kFindThreads) {
    const TableSlot& place = t.table.slots[slot];
    if (place.fixed == kNothing || place.fixed == t.turn + 1) continue;
    Victim next{0, 0, place.expert, slot};
    if (next.expert != kNothing) {
      next.last_use = t.table.experts[next.expert].last_use;
      if (next.last_use > turn_begins(t, head.clock)) continue;  // the layer needs it
      next.key = key_of(t, head, next.expert);
    }
    if (next.before(best, head.newest_first != 0)) best = next;
  }
  return best;
}

/// The choices of the layer, sorted.
struct Sorted {
  uint32_t expert[kMost];  ///< of each choice, in the layer
  uint32_t place[kMost];   ///< of each choice, by expert
  uint32_t leads[kMost];   ///< not 0: the first choice of its expert
  // Of each needed expert, ascending:
  ExpertId id[kMost];
  uint32_t begin[kMost], rows[kMost];
  uint32_t slot[kMost];
  uint32_t missing[kMost];  ///< indices into these
  uint32_t needed, misses, lacking;
};

__device__ void sort_choices(const FindTask& t, Sorted& s) {
  const uint32_t i = threadIdx.x;
  if (i < t.count) t.log->expert[i] = static_cast<uint16_t>(s.expert[i] = t.choices.expert[i]);
  __syncthreads();
  uint32_t rows = 0;
  if (i < t.count) {
    uint32_t place = 0, earlier = 0;
    for (uint32_t other = 0; other < t.count; ++other) {
      const bool same = s.expert[other] == s.expert[i];
      place += s.expert[other] < s.expert[i] || (same && other < i);
      earlier += same && other < i;
      rows += same;
    }
    s.place[i] = place;
    s.leads[i] = earlier == 0;
  }
  __syncthreads();
  if (i == 0) {
    s.needed = 0;
    for (uint32_t choice = 0; choice < t.count; ++choice) s.needed += s.leads[choice];
  }
  if (i >= t.count) return;
  const uint32_t place = s.place[i], row = i / t.k * t.k;
  t.choices.order[place] = i;
  uint32_t at = row;
  for (uint32_t other = row; other < row + t.k; ++other) at += s.place[other] < place;
  t.choices.positions[at] = place;
  t.choices.alphas[at] = t.choices.alpha[i];
  if (s.leads[i] == 0) return;
  uint32_t index = 0;
  for (uint32_t other = 0; other < t.count; ++other) index += s.leads[other] != 0 && s.place[other] < place;
  s.id[index] = t.first + s.expert[i];
  s.begin[index] = place;
  s.rows[index] = rows;
}

/// Looks up the slots of the needed experts.
__device__ void look_up(const FindTask& t, const TableHead& head, Sorted& s) {
  const uint32_t i = threadIdx.x;
  if (i < s.needed) {
    s.slot[i] = t.table.slot_of[s.id[i]];
    t.table.experts[s.id[i]].last_use = turn_begins(t, head.clock) + 1 + i;
  }
  __syncthreads();
  if (i == 0) {
    s.misses = s.lacking = 0;
    for (uint32_t index = 0; index < s.needed; ++index) {
      if (s.slot[index] != kNothing) continue;
      s.missing[s.misses++] = index;
      if (t.table.experts[s.id[index]].host == nullptr) s.lacking = 1;
    }
  }
  __syncthreads();
}

/// The first of all threads' victims. `own`: of this thread. Its caller synchronizes before the next call.
__device__ Victim first_victim(const Victim& own, const TableHead& head) {
  __shared__ Victim victims[kFindThreads];
  victims[threadIdx.x] = own;
  __syncthreads();
  for (uint32_t step = kFindThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step && victims[threadIdx.x + step].before(victims[threadIdx.x], head.newest_first != 0)) {
      victims[threadIdx.x] = victims[threadIdx.x + step];
    }
    __syncthreads();
  }
  return victims[0];
}

/// By one thread.
__device__ void give_slot(const FindTask& t, const Victim& victim, ExpertId id, ExpertMove& move, MovedExpert& log) {
  TableSlot& slot = t.table.slots[victim.slot];
  if (victim.expert != kNothing) t.table.slot_of[victim.expert] = kNothing;
  t.table.slot_of[id] = victim.slot;
  slot.expert = id;
  move = {t.table.experts[id].host, slot.block};
  log = {id, victim.slot, victim.expert};
}

/// Gives each missing expert a slot. The caller makes sure that there are enough.
__device__ void take_slots(const FindTask& t, const TableHead& head, Sorted& s) {
  Victim own = find_victim(t, head);
  for (uint32_t miss = 0; miss < s.misses; ++miss) {
    const Victim victim = first_victim(own, head);
    const uint32_t index = s.missing[miss];
    if (threadIdx.x == victim.slot % kFindThreads) {
      give_slot(t, victim, s.id[index], t.choices.moves[miss], t.log->moved[miss]);
      s.slot[index] = victim.slot;
      own = find_victim(t, head);
    }
    __syncthreads();
  }
}

/// The first prefetch that may take the victim's slot; kNothing: none.
__device__ uint32_t first_prefetch(const FindTask& t, const TableHead& head, const Victim& victim) {
  __shared__ uint32_t may[kFindThreads];
  const bool free = victim.expert == kNothing;
  const uint32_t i = threadIdx.x;
  const ExpertId id = i < head.prefetches ? t.table.prefetches[i] : kNothing;
  may[i] = id != kNothing && t.table.slot_of[id] == kNothing && t.table.experts[id].last_use <= head.clock &&
           (free || key_of(t, head, id) < victim.key);
  __syncthreads();
  for (uint32_t entry = 0; entry < head.prefetches; ++entry) {
    if (may[entry] != 0) return entry;
  }
  return kNothing;
}

/// Gives slots to prefetches, by the rule of ResidencyTable::next_prefetch(). How many.
__device__ uint32_t take_prefetches(const FindTask& t, const TableHead& head) {
  uint32_t count = 0;
  for (Victim own = find_victim(t, head); count < kMostLayerPrefetches; ++count) {
    const Victim victim = first_victim(own, head);
    if (victim.slot == kNothing || (victim.expert != kNothing && victim.key < head.expendable)) break;
    const uint32_t entry = first_prefetch(t, head, victim);
    if (entry == kNothing) break;
    if (threadIdx.x == victim.slot % kFindThreads) {
      const ExpertId id = t.table.prefetches[entry];
      give_slot(t, victim, id, t.choices.moves[kMost + count], t.log->prefetched[count]);
      t.table.prefetches[entry] = kNothing;
      t.table.slots[victim.slot].fixed = t.turn + 1;  // nothing else may be copied there at the same time
      TableExpert& expert = t.table.experts[id];
      if (expert.key >= head.expendable) expert.key -= head.expendable;
      if (expert.key_unneeded >= head.expendable) expert.key_unneeded -= head.expendable;
      own = find_victim(t, head);
    }
    __syncthreads();
  }
  return count;
}

__device__ const float* bias_of(const BlockMatrix& matrix, const std::byte* block) {
  return matrix.bias == kNoBias ? nullptr : reinterpret_cast<const float*>(block + matrix.bias);
}

__device__ void list_products(const FindTask& t, const Sorted& s) {
  const uint32_t i = threadIdx.x;
  if (i >= t.most) return;
  ProductRows gate{}, up{}, down{};
  if (i < s.needed && s.lacking == 0) {
    const std::byte* block = t.table.slots[s.slot[i]].block;
    const uint32_t begin = s.begin[i], rows = s.rows[i];
    float* hidden = t.hidden + size_t{begin} * t.hidden_width;
    const uint32_t* gather = t.choices.order + begin;
    gate = {t.x, gather, block + t.gate.weights, bias_of(t.gate, block), hidden,
            t.k, rows,   t.hidden_width,         t.hidden_width};
    up = {t.x, gather, block + t.up.weights, bias_of(t.up, block), hidden, t.k, rows, t.hidden_width, t.hidden_width};
    down = {
        hidden,  nullptr, block + t.down.weights, bias_of(t.down, block), t.outputs + size_t{begin} * t.width, 1, rows,
        t.width, t.width};
  }
  t.choices.products[i] = gate;  // in the order of Projection
  t.choices.products[kMost + i] = up;
  t.choices.products[2 * kMost + i] = down;
}

/// One block. A layer behind one that lacked an expert lists nothing.
__global__ void __launch_bounds__(kFindThreads, 1) find(const FindTask t) {
  __shared__ Sorted s;
  __shared__ TableHead head;
  if (threadIdx.x == 0) head = *t.table.head;
  sort_choices(t, s);
  __syncthreads();
  look_up(t, head, s);
  if (threadIdx.x == 0 && head.stopped != 0) s.lacking = 1;
  __syncthreads();
  if (s.lacking == 0 && s.misses > 0) take_slots(t, head, s);
  const uint32_t prefetches = s.lacking == 0 && head.prefetches > 0 ? take_prefetches(t, head) : 0;
  if (threadIdx.x == 0) {
    const uint32_t moves = s.lacking == 0 ? s.misses : 0;
    t.choices.move_count[0] = moves;
    t.choices.move_count[1] = prefetches;
    t.table.head->stopped = s.lacking;
    t.log->stopped = s.lacking;
    t.log->moves = moves;
    t.log->prefetches = prefetches;
  }
  list_products(t, s);
}

constexpr unsigned kMoveBlocks = 64, kPrefetchBlocks = 16, kMoveThreads = 256;
/// Loads of a thread that are in flight at once: the link is long.
constexpr unsigned kAhead = 4;

__global__ void __launch_bounds__(kMoveThreads) move(const ExpertMove* moves, const uint32_t* listed, size_t units) {
  const uint32_t count = *listed;
  const size_t first = blockIdx.x * kMoveThreads + threadIdx.x, step = size_t{gridDim.x} * kMoveThreads;
  for (uint32_t i = 0; i < count; ++i) {
    const auto* from = reinterpret_cast<const uint4*>(moves[i].from);
    auto* to = reinterpret_cast<uint4*>(moves[i].to);
    for (size_t unit = first; unit < units; unit += kAhead * step) {
      uint4 words[kAhead];
#pragma unroll
      for (unsigned a = 0; a < kAhead; ++a) {
        if (unit + a * step < units) words[a] = from[unit + a * step];
      }
#pragma unroll
      for (unsigned a = 0; a < kAhead; ++a) {
        if (unit + a * step < units) to[unit + a * step] = words[a];
      }
    }
  }
}

}  // namespace

size_t listed_products_bytes() { return 3 * kMost * sizeof(ProductRows); }

const ProductRows* listed_products(const DeviceChoices& choices, Projection projection) {
  return choices.products + static_cast<size_t>(projection) * kMost;
}

void find_experts(const FindTask& task, cudaStream_t stream) { launch(find, {1, kFindThreads}, stream, task); }

void move_experts(const DeviceChoices& choices, size_t bytes, cudaStream_t stream) {
  launch(move, {kMoveBlocks, kMoveThreads}, stream, choices.moves, choices.move_count, bytes / sizeof(uint4));
}

void move_prefetches(const DeviceChoices& choices, size_t bytes, cudaStream_t stream) {
  launch(move, {kPrefetchBlocks, kMoveThreads}, stream, choices.moves + kMost, choices.move_count + 1,
         bytes / sizeof(uint4));
}

}  // namespace sida::cuda
