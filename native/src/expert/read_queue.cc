#include "expert/read_queue.h"

#include <algorithm>
#include <utility>

namespace sida {

ReadQueue::Queue::iterator ReadQueue::find(Queue& queue, ExpertId id) {
  return std::find_if(queue.begin(), queue.end(), [&](const auto& transfer) { return transfer->id == id; });
}

void ReadQueue::push(std::shared_ptr<Transfer> transfer, TransferPriority priority) {
  Queue& queue = priority == TransferPriority::kDemand ? demand_ : prefetch_;
  auto place = queue.end();
  while (place != queue.begin()) {
    const Transfer& before = **std::prev(place);
    if (before.layer != transfer->layer || before.taken > 0 || before.offset < transfer->offset) break;
    --place;
  }
  queue.insert(place, std::move(transfer));
}

bool ReadQueue::promote(ExpertId id) {
  const auto found = find(prefetch_, id);
  if (found == prefetch_.end()) return false;
  std::shared_ptr<Transfer> transfer = std::move(*found);
  prefetch_.erase(found);
  push(std::move(transfer), TransferPriority::kDemand);
  return true;
}

std::shared_ptr<Transfer> ReadQueue::cancel(ExpertId id) {
  const auto found = find(prefetch_, id);
  if (found == prefetch_.end() || (*found)->taken > 0) return nullptr;
  std::shared_ptr<Transfer> transfer = std::move(*found);
  prefetch_.erase(found);
  return transfer;
}

TransferChunk ReadQueue::take_chunk(TransferPriority priority, uint64_t bytes) {
  Queue& queue = priority == TransferPriority::kDemand ? demand_ : prefetch_;
  std::shared_ptr<Transfer> transfer = queue.front();
  const TransferChunk chunk{transfer, transfer->taken, std::min(bytes, transfer->bytes - transfer->taken), priority};
  transfer->taken += chunk.bytes;
  ++transfer->chunks_moving;
  if (transfer->taken == transfer->bytes) queue.pop_front();
  return chunk;
}

std::vector<TransferChunk> ReadQueue::take() {
  std::vector<TransferChunk> chunks;
  const auto priority = demand_.empty() ? TransferPriority::kPrefetch : TransferPriority::kDemand;
  Queue& queue = priority == TransferPriority::kDemand ? demand_ : prefetch_;
  if (queue.empty()) return chunks;
  overtakes_ += priority == TransferPriority::kDemand && queue.front()->taken == 0 && !prefetch_.empty() &&
                prefetch_.front()->taken > 0;
  uint64_t room = chunk_bytes_;
  uint64_t end = 0;
  do {
    chunks.push_back(take_chunk(priority, room));
    const TransferChunk& last = chunks.back();
    room -= last.bytes;
    end = last.transfer->offset + last.begin + last.bytes;
  } while (!queue.empty() && queue.front()->taken == 0 && queue.front()->offset == end &&
           queue.front()->bytes <= room && chunks.size() < kMaxChunks);
  return chunks;
}

std::shared_ptr<Transfer> ReadQueue::finish(const TransferChunk& chunk, std::exception_ptr error) {
  Transfer& transfer = *chunk.transfer;
  --transfer.chunks_moving;
  if (error && !transfer.error) {
    transfer.error = std::move(error);
    for (Queue* queue : {&demand_, &prefetch_}) {
      const auto found = std::find(queue->begin(), queue->end(), chunk.transfer);
      if (found != queue->end()) queue->erase(found);
    }
    transfer.taken = transfer.bytes;
  }
  if (transfer.chunks_moving > 0 || transfer.taken < transfer.bytes) return nullptr;
  return chunk.transfer;
}

}  // namespace sida
