#include "expert/transfer_engine.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/follow.h"
#include "core/profile.h"

namespace sida {
namespace {

/// A memory copy of this size takes well below a millisecond.
constexpr uint64_t kCopiedChunk = 2 << 20;
/// Bytes a second of a link to a device, until it is measured.
constexpr double kUnmeasuredLink = 12e9;

uint64_t steady_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

}  // namespace

TransferEngine::TransferEngine(const ExpertLayout& layout, Backend& device, ExpertFile& disk, HostTier& host,
                               SimulatedLink link, ReadTuning tuning, Done done)
    : layout_(layout),
      device_(device),
      host_(host),
      link_(link),
      done_(std::move(done)),
      settings_(choose_read_settings(disk, layout.slot_bytes, tuning)),
      seconds_per_copied_byte_(1 / kUnmeasuredLink) {
  try {
    add_lane(&disk, settings_.depth, settings_.chunk_bytes);
    if (host.on()) {
      add_lane(nullptr, device.copies_in_flight(), tuning.chunk_bytes > 0 ? tuning.chunk_bytes : kCopiedChunk);
    }
  } catch (...) {
    stop();
    throw;
  }
}

TransferEngine::~TransferEngine() { stop(); }

void TransferEngine::add_lane(ExpertFile* file, size_t depth, uint64_t chunk_bytes) {
  Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>(chunk_bytes, depth));
  lane.file = file;
  lane.name = file == nullptr ? "copies from host" : "transfers";
  try {
    for (size_t i = 0; i < depth; ++i) {
      lane.readers.emplace_back([this, &lane, writer = device_.writer()] { work(lane, *writer); });
    }
  } catch (const std::system_error& error) {
    throw Error("out_of_memory",
                "reader " + std::to_string(lane.readers.size() + 1) + " of " + std::to_string(depth) +
                    " could not be started: " + error.what(),
                {{"threads", static_cast<double>(depth)}});
  }
  // A reader that starts late would allocate its name while a pass runs.
  lane.starting.wait();
}

void TransferEngine::stop() {
  for (const auto& lane : lanes_) {
    std::lock_guard lock(lane->mutex);
    lane->stopping = true;
    lane->wake.notify_all();
  }
  for (const auto& lane : lanes_) {
    for (std::thread& reader : lane->readers) reader.join();
  }
}

size_t TransferEngine::prefetches_in_flight() const { return std::max<size_t>(settings_.depth, 2); }

void TransferEngine::submit(std::span<const Request> requests, TransferPriority priority) {
  if (requests.empty()) return;
  std::vector<std::vector<std::shared_ptr<Transfer>>> by_lane(lanes_.size());
  for (const Request& request : requests) {
    auto transfer = std::make_shared<Transfer>();
    transfer->id = request.id;
    transfer->layer = layout_.shape.place(request.id).layer;
    transfer->offset = layout_.blocks_end(request.id);
    transfer->bytes = layout_.layers[transfer->layer].bytes;
    transfer->slot = request.slot;
    device_.emptied(transfer->slot, transfer->bytes);
    if (host_.on()) transfer->held = host_.hold(request.id);
    by_lane[transfer->held != nullptr ? lanes_.size() - 1 : 0].push_back(std::move(transfer));
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (by_lane[i].empty()) continue;
    Lane& lane = *lanes_[i];
    {
      std::lock_guard lock(lane.mutex);
      for (auto& transfer : by_lane[i]) lane.queue.push(std::move(transfer), priority);
    }
    lane.wake.notify_all();
  }
}

bool TransferEngine::promote(ExpertId id) {
  for (Lane* lane : {lanes_.front().get(), lanes_.back().get()}) {
    std::lock_guard lock(lane->mutex);
    if (lane->queue.promote(id)) return true;
  }
  return false;
}

bool TransferEngine::cancel(ExpertId id) {
  for (Lane* lane : {lanes_.front().get(), lanes_.back().get()}) {
    std::shared_ptr<Transfer> transfer;
    {
      std::lock_guard lock(lane->mutex);
      transfer = lane->queue.cancel(id);
    }
    if (!transfer) continue;
    if (transfer->held != nullptr) host_.release(id);
    return true;
  }
  return false;
}

ReadStats TransferEngine::take_stats() {
  ReadStats sum;
  for (const auto& lane : lanes_) {
    std::lock_guard lock(lane->mutex);
    sum.reads += std::exchange(lane->stats.reads, 0);
    sum.bytes += std::exchange(lane->stats.bytes, 0);
    sum.overtakes += lane->queue.take_overtakes();
  }
  return sum;
}

void TransferEngine::keep_for_host(const TransferChunk& chunk, const std::byte* bytes) {
  Transfer& transfer = *chunk.transfer;
  // The first thread reserves the block; the others wait for it.
  std::call_once(transfer.keeping, [&] { transfer.kept = host_.reserve(); });
  if (transfer.kept == nullptr) return;
  std::memcpy(transfer.kept->data() + chunk.begin, bytes, chunk.bytes);
}

std::exception_ptr TransferEngine::read(ExpertFile& file, DeviceWriter& writer, std::span<const TransferChunk> chunks) {
  size_t bytes = 0;
  for (const TransferChunk& chunk : chunks) bytes += chunk.bytes;
  std::vector<iovec> buffers;
  std::vector<std::byte*> targets;  // a copy, because short reads advance the buffers
  try {
    writer.begin(bytes);
    for (const TransferChunk& chunk : chunks) {
      targets.push_back(writer.buffer_for(chunk.transfer->slot + chunk.begin, chunk.bytes));
      buffers.push_back({targets.back(), chunk.bytes});
    }
    file.read(chunks[0].transfer->offset + chunks[0].begin, buffers);
    for (size_t i = 0; i < chunks.size(); ++i) {
      writer.send(chunks[i].transfer->slot + chunks[i].begin, targets[i], chunks[i].bytes);
      if (host_.on()) keep_for_host(chunks[i], targets[i]);
    }
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

std::vector<std::exception_ptr> TransferEngine::move(Lane& lane, DeviceWriter& writer,
                                                     std::span<const TransferChunk> chunks) {
  std::vector<std::exception_ptr> errors(chunks.size());
  const auto start = LinkClock::Clock::now();
  uint64_t bytes = 0;
  bool first = false;
  for (const TransferChunk& chunk : chunks) {
    bytes += chunk.bytes;
    first |= chunk.begin == 0;
  }
  if (lane.file == nullptr) {
    for (size_t i = 0; i < chunks.size(); ++i) {
      const TransferChunk& chunk = chunks[i];
      try {
        writer.send(chunk.transfer->slot + chunk.begin, chunk.transfer->held + chunk.begin, chunk.bytes);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  } else {
    std::exception_ptr error = read(*lane.file, writer, chunks);
    if (chunks.size() == 1) {
      errors[0] = std::move(error);
    } else if (error) {
      // One chunk failed: read each by itself, so that its neighbours need not fail.
      for (size_t i = 0; i < chunks.size(); ++i) errors[i] = read(*lane.file, writer, chunks.subspan(i, 1));
    }
  }
  link_.carry(start, bytes, first);
  return errors;
}

void TransferEngine::record(std::span<const TransferChunk> chunks, std::span<const std::exception_ptr> errors,
                            uint64_t begin_ns) const {
  for (size_t i = 0; i < chunks.size(); ++i) {
    const auto& [transfer, begin, bytes, priority] = chunks[i];
    profile_record(priority == TransferPriority::kDemand ? ProfileOp::kDemand : ProfileOp::kPrefetch, begin_ns,
                   {.layer = static_cast<int32_t>(transfer->layer),
                    .expert = static_cast<int32_t>(layout_.shape.place(transfer->id).index),
                    .bytes = errors[i] ? -1 : static_cast<int64_t>(bytes)});
  }
}

void TransferEngine::end(Transfer& transfer, DeviceWriter& writer) {
  if (transfer.kept != nullptr) {
    if (transfer.error) {
      host_.give_back(std::move(transfer.kept));
    } else {
      host_.keep(transfer.id, std::move(transfer.kept));
    }
  }
  if (!transfer.error) {
    try {
      device_.filled(transfer.slot);
    } catch (...) {
      transfer.error = std::current_exception();
    }
  }
  const bool held = transfer.held != nullptr;
  const ExpertId id = transfer.id;
  // Moved, so that the thread that reads the exception is also the one that frees it.
  done_(id, std::move(transfer.error));
  if (!held) return;
  try {
    writer.finish();
    learn_copy(transfer);
  } catch (const Error&) {
    // A failed device no longer reads the block. The next call that uses the device throws this error.
  }
  host_.release(id);
}

void TransferEngine::learn_copy(const Transfer& transfer) {
  Lane& lane = *lanes_.back();
  std::lock_guard lock(lane.mutex);
  // Copies follow each other: one begins when the one before has ended.
  const uint64_t now = steady_ns(), begin = std::max(transfer.began_ns, std::exchange(last_copied_ns_, now));
  const double seconds = static_cast<double>(now - begin) / 1e9;
  seconds_per_copied_byte_ = follow(seconds_per_copied_byte_, seconds / static_cast<double>(transfer.bytes), kWorkStep);
}

void TransferEngine::work(Lane& lane, DeviceWriter& writer) {
  profile_name_thread(lane.name);
  lane.starting.count_down();
  std::unique_lock lock(lane.mutex);
  for (;;) {
    lane.wake.wait(lock, [&] { return lane.stopping || !lane.queue.empty(); });
    if (lane.stopping) return;
    const std::vector<TransferChunk> chunks = lane.queue.take();
    if (lane.file == nullptr) {
      for (const TransferChunk& chunk : chunks) {
        if (chunk.begin == 0) chunk.transfer->began_ns = steady_ns();
      }
    }
    lock.unlock();
    const uint64_t begin_ns = profile_on() ? profile_now() : 0;
    std::vector<std::exception_ptr> errors = move(lane, writer, chunks);
    if (begin_ns != 0) record(chunks, errors, begin_ns);
    lock.lock();
    std::vector<std::shared_ptr<Transfer>> ended;
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (auto transfer = lane.queue.finish(chunks[i], std::move(errors[i]))) ended.push_back(transfer);
      if (lane.file != nullptr) lane.stats.bytes += chunks[i].bytes;
    }
    lane.stats.reads += lane.file != nullptr;
    lock.unlock();
    for (const auto& transfer : ended) end(*transfer, writer);
    lock.lock();
  }
}

}  // namespace sida
