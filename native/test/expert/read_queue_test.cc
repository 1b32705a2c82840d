// The order in which a file is read: priorities, offsets, chunks, neighbours.
#include "expert/read_queue.h"

#include "support/test.h"

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBlock = 4 * kPage;

/// Layers of eight experts, one after the other in the file.
std::shared_ptr<Transfer> transfer_of(ExpertId id) {
  auto transfer = std::make_shared<Transfer>();
  transfer->id = id;
  transfer->layer = id / 8;
  transfer->offset = id * kBlock;
  transfer->bytes = kBlock;
  return transfer;
}

struct Part {
  ExpertId id;
  uint64_t begin;
  uint64_t bytes;
  bool operator==(const Part&) const = default;
};

class Reads {
 public:
  explicit Reads(uint64_t chunk_bytes) : queue(chunk_bytes) {}

  void push(std::initializer_list<ExpertId> ids, TransferPriority priority) {
    for (const ExpertId id : ids) queue.push(transfer_of(id), priority);
  }
  /// Takes a read, which is in flight until `finish`.
  std::vector<Part> take() {
    chunks = queue.take();
    std::vector<Part> parts;
    for (const TransferChunk& chunk : chunks) parts.push_back({chunk.transfer->id, chunk.begin, chunk.bytes});
    return parts;
  }
  /// Takes and ends whole reads; the ids in the order in which their transfers ended.
  std::vector<ExpertId> drain() {
    std::vector<ExpertId> ended;
    while (!take().empty()) {
      for (const TransferChunk& chunk : chunks) {
        if (queue.finish(chunk, nullptr)) ended.push_back(chunk.transfer->id);
      }
    }
    return ended;
  }

  ReadQueue queue;
  std::vector<TransferChunk> chunks;
};

using Parts = std::vector<Part>;
using Ids = std::vector<ExpertId>;

TEST_CASE("read queue: demands before prefetches, layers in order of arrival, offsets within a layer") {
  Reads reads(kBlock);
  reads.push({21, 19, 3, 5, 1}, TransferPriority::kPrefetch);
  reads.push({12, 10}, TransferPriority::kDemand);
  CHECK(reads.drain() == Ids{10, 12, 19, 21, 1, 3, 5});
}

TEST_CASE("read queue: a block longer than a chunk is read chunk by chunk") {
  Reads reads(3 * kPage);
  reads.push({2}, TransferPriority::kDemand);
  CHECK(reads.take() == Parts{{2, 0, 3 * kPage}});
  CHECK(reads.take() == Parts{{2, 3 * kPage, kPage}});
  CHECK(reads.queue.empty());
}

TEST_CASE("read queue: a demand overtakes the rest of a prefetch, which then continues") {
  Reads reads(2 * kPage);
  reads.push({4}, TransferPriority::kPrefetch);
  CHECK(reads.take() == Parts{{4, 0, 2 * kPage}});
  const TransferChunk begun = reads.chunks[0];
  reads.push({9}, TransferPriority::kDemand);
  CHECK(reads.take() == Parts{{9, 0, 2 * kPage}});
  CHECK_FALSE(reads.queue.finish(reads.chunks[0], nullptr));
  CHECK_FALSE(reads.queue.finish(begun, nullptr));
  CHECK(reads.take() == Parts{{9, 2 * kPage, 2 * kPage}});
  CHECK(reads.queue.finish(reads.chunks[0], nullptr)->id == 9);
  CHECK(reads.take() == Parts{{4, 2 * kPage, 2 * kPage}});
  CHECK(reads.queue.finish(reads.chunks[0], nullptr)->id == 4);
  CHECK(reads.queue.take_overtakes() == 1);
  CHECK(reads.queue.take_overtakes() == 0);
}

TEST_CASE("read queue: neighbours share a read, as far as whole blocks fit a chunk") {
  Reads reads(3 * kBlock);
  reads.push({8, 11, 9, 10, 13}, TransferPriority::kDemand);
  CHECK(reads.take() == Parts{{8, 0, kBlock}, {9, 0, kBlock}, {10, 0, kBlock}});
  CHECK(reads.take() == Parts{{11, 0, kBlock}});
  CHECK(reads.take() == Parts{{13, 0, kBlock}});
}

TEST_CASE("read queue: a demand and a prefetch never share a read") {
  Reads reads(8 * kBlock);
  reads.push({1}, TransferPriority::kDemand);
  reads.push({2}, TransferPriority::kPrefetch);
  CHECK(reads.take() == Parts{{1, 0, kBlock}});
  CHECK(reads.take() == Parts{{2, 0, kBlock}});
}

TEST_CASE("read queue: a prefetch is cancelled only before it begins, and promoted also after") {
  Reads reads(2 * kPage);
  reads.push({3, 5, 6}, TransferPriority::kPrefetch);
  reads.take();
  CHECK(reads.queue.cancel(3) == nullptr);
  CHECK(reads.queue.cancel(5)->id == 5);
  CHECK(reads.queue.cancel(5) == nullptr);
  reads.push({1}, TransferPriority::kDemand);
  CHECK(reads.queue.promote(3));
  CHECK_FALSE(reads.queue.promote(3));
  CHECK_FALSE(reads.queue.promote(7));
  CHECK(reads.take() == Parts{{1, 0, 2 * kPage}});
  CHECK(reads.take() == Parts{{1, 2 * kPage, 2 * kPage}});
  CHECK(reads.take() == Parts{{3, 2 * kPage, 2 * kPage}});
  CHECK(reads.take() == Parts{{6, 0, 2 * kPage}});
}

TEST_CASE("read queue: a failed chunk ends only its transfer, once the transfer's other chunks have ended") {
  Reads reads(kPage);
  reads.push({4, 5}, TransferPriority::kPrefetch);
  reads.take();
  const TransferChunk first = reads.chunks[0];
  reads.take();
  const TransferChunk second = reads.chunks[0];
  CHECK_FALSE(reads.queue.finish(second, std::make_exception_ptr(Error("io_error", "gone"))));
  const auto ended = reads.queue.finish(first, nullptr);
  REQUIRE(ended);
  CHECK(ended->id == 4);
  CHECK(ended->error);
  CHECK(reads.drain() == Ids{5});
}

}  // namespace
