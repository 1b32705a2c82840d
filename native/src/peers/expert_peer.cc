#include "peers/expert_peer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "checkpoint/gguf_experts.h"
#include "core/error.h"

namespace sida {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGreetingTime = std::chrono::seconds(2);
constexpr auto kMessageTime = std::chrono::seconds(10);
constexpr auto kIdleTime = std::chrono::hours(1);
constexpr size_t kMostServers = 16;
constexpr size_t kMostStrangers = 32;
constexpr PeerLimits kLimits{.rows = 2048, .choices = 4096};
constexpr size_t kScratchRows = 256;

constexpr size_t line(size_t floats) { return (floats + 15) / 16 * 16; }

/// Of a server's rows; an echo stands there, too.
constexpr size_t input_bytes(size_t width) {
  return std::max<size_t>(kLimits.rows * width * sizeof(float), kMostEchoBytes);
}
constexpr size_t output_bytes(size_t width) { return kLimits.choices * width * sizeof(float); }

/// Floats of each part of the scratch memory.
struct ScratchSizes {
  size_t inputs, stride, hidden, rounded;

  ScratchSizes(const ExpertShape& shape, ActivationFormat activations) {
    inputs = line(kScratchRows * shape.width);
    // Rows a multiple of 4 KiB apart would compete for the same lines of the L1 cache.
    stride = line(shape.hidden) + 16;
    hidden = kScratchRows * stride;
    rounded =
        line(rounded_bytes(std::min(kScratchRows, kRoundedRows), std::max(shape.width, shape.hidden), activations) /
             sizeof(float));
  }
  size_t bytes() const { return (inputs + hidden + rounded) * sizeof(float); }
};

}  // namespace

struct ExpertPeer::Buffers {
  Buffers(DeviceMemory& memory, size_t width)
      : inputs(memory, input_bytes(width), Touch::kByCaller), outputs(memory, output_bytes(width), Touch::kByCaller) {}

  DeviceBuffer inputs;   ///< (rows, width)
  DeviceBuffer outputs;  ///< (choices, width)
  std::vector<AskedExpert> experts;
  std::vector<uint32_t> choices;
  std::vector<ExpertRows> group;
};

uint64_t ExpertPeer::buffer_bytes() const {
  const size_t width = pack_.experts.shape.width;
  return memory_.taken(input_bytes(width)) + memory_.taken(output_bytes(width));
}

ExpertPeer::ExpertPeer(ExpertPeerOptions options)
    : options_(std::move(options)),
      pack_(open_pack(options_.pack)),
      backend_(make_cpu_backend()),
      memory_(*backend_, options_.budget_bytes),
      disk_(open_experts(pack_)),
      offer_{kLimits, options_.held},
      blocks_(pack_.experts.experts()),
      pool_(options_.threads),
      listener_(options_.address) {
  const ExpertLayout& layout = pack_.experts;
  if (offer_.held.size() != layout.experts()) {
    throw Error("invalid_request", "a share of " + std::to_string(offer_.held.size()) + " experts for " +
                                       std::to_string(layout.experts()));
  }
  const ScratchSizes sizes(layout.shape, options_.activations);
  uint64_t blocks = 0;
  for (ExpertId id = 0; id < layout.experts(); ++id) {
    if (offer_.held[id] == 0) continue;
    ++held_count_;
    blocks += memory_.taken(layout.block_bytes(id));
  }
  const uint64_t needed = blocks + memory_.taken(sizes.bytes()) + buffer_bytes();
  if (needed > options_.budget_bytes) {
    throw Error(
        "budget_too_small",
        "a budget of " + std::to_string(options_.budget_bytes) + " bytes is below the " + std::to_string(needed) +
            " bytes that this share needs (" + std::to_string(held_count_) + " experts " + std::to_string(blocks) +
            ", buffers " + std::to_string(needed - blocks) + "); raise the budget, or hold a smaller share",
        {{"budget_bytes", static_cast<double>(options_.budget_bytes)}, {"needed_bytes", static_cast<double>(needed)}});
  }
  scratch_memory_ = DeviceBuffer(memory_, sizes.bytes());
  float* const inputs = scratch_memory_.floats();
  float* const hidden = inputs + sizes.inputs;
  auto* const rounded = reinterpret_cast<std::byte*>(hidden + sizes.hidden);
  scratch_ = {
      kScratchRows, inputs, hidden, sizes.stride, {options_.activations, {rounded, sizes.rounded * sizeof(float)}}};
}

ExpertPeer::~ExpertPeer() {
  listener_.close();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (Client& client : clients_) client.connection->close();
  }
  if (acceptor_.joinable()) acceptor_.join();
  for (Client& client : clients_) client.thread.join();
}

size_t ExpertPeer::load(size_t most) {
  const ExpertLayout& layout = pack_.experts;
  std::vector<ExpertId> ids;
  for (; next_ < layout.experts() && ids.size() < most; ++next_) {
    if (offer_.held[next_] == 0) continue;
    blocks_[next_] = DeviceBuffer(memory_, layout.block_bytes(next_), Touch::kByCaller);
    ids.push_back(next_);
  }
  std::mutex failing;
  std::exception_ptr error;
  pool_.parallel_for(ids.size(), [&](size_t i, size_t) {
    try {
      disk_->read(layout.blocks_end(ids[i]), layout.block_bytes(ids[i]), blocks_[ids[i]].data());
    } catch (...) {
      std::lock_guard lock(failing);
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
  return static_cast<size_t>(std::count(offer_.held.begin() + next_, offer_.held.end(), 1));
}

void ExpertPeer::start() {
  acceptor_ = std::thread([this] { accept(); });
}

ExpertPeerStats ExpertPeer::stats() const {
  std::lock_guard lock(mutex_);
  ExpertPeerStats copy = stats_;
  copy.servers =
      static_cast<uint64_t>(std::ranges::count_if(clients_, [](const Client& client) { return client.greeted; }));
  return copy;
}

void ExpertPeer::accept() {
  for (;;) {
    std::string from;
    auto connection = listener_.accept(from);
    if (connection == nullptr) return;
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    std::erase_if(clients_, [](Client& client) {
      if (client.ended) client.thread.join();
      return client.ended;
    });
    // Strangers make room for servers, and bound their threads.
    const auto strangers = static_cast<size_t>(std::ranges::count(clients_, false, &Client::greeted));
    if (strangers >= 2 * kMostStrangers) continue;
    if (strangers >= kMostStrangers) std::ranges::find(clients_, false, &Client::greeted)->connection->close();
    Client& client = clients_.emplace_back(Client{std::move(connection), from, {}});
    try {
      client.thread = std::thread([this, &client] { serve(client); });
    } catch (const std::system_error&) {
      clients_.pop_back();
    }
  }
}

void ExpertPeer::serve(Client& client) {
  std::string refused;
  std::optional<Buffers> buffers;
  try {
    greet_server(*client.connection, options_.secrets, offer_, Clock::now() + kGreetingTime,
                 [&] { return admit(client, buffers); });
    for (;;) answer(*client.connection, *buffers);
  } catch (const ConnectionLost& error) {
    if (!buffers) refused = error.what();
  } catch (const std::exception& error) {
    refused = error.what();
  }
  client.connection->close();
  std::lock_guard lock(mutex_);
  client.greeted = false;
  client.ended = true;
  if (refused.empty()) return;
  ++stats_.refused;
  stats_.last_refused = client.from + ": " + refused;
}

bool ExpertPeer::admit(Client& client, std::optional<Buffers>& buffers) {
  std::lock_guard lock(mutex_);
  if (std::ranges::count(clients_, true, &Client::greeted) >= static_cast<ptrdiff_t>(kMostServers)) return false;
  try {
    buffers.emplace(memory_, pack_.experts.shape.width);
  } catch (const Error&) {
    return false;
  }
  return client.greeted = true;
}

void ExpertPeer::answer(Connection& connection, Buffers& buffers) {
  while (!connection.wait(Clock::now() + kIdleTime)) continue;
  const Deadline deadline = Clock::now() + kMessageTime;
  PeerRequest request;
  connection.receive(value_buffer(request), deadline);
  if (request.kind == PeerRequestKind::kEcho) {
    if (request.rows > kMostEchoBytes) throw ConnectionLost("it asked for too long an echo");
    connection.receive({buffers.inputs.data(), request.rows}, deadline);
    return connection.send({buffers.inputs.data(), request.rows}, Clock::now() + kMessageTime);
  }
  const ExpertShape& shape = pack_.experts.shape;
  check_request(request, shape, kLimits);
  const size_t row_bytes = shape.width * sizeof(float);
  buffers.experts.resize(request.experts);
  buffers.choices.resize(request.choices);
  connection.receive(std::as_writable_bytes(std::span(buffers.experts)), deadline);
  connection.receive(std::as_writable_bytes(std::span(buffers.choices)), deadline);
  check_choices(request, buffers.experts, buffers.choices, shape, offer_.held);
  connection.receive({buffers.inputs.data(), request.rows * row_bytes}, deadline);
  const auto begin = Clock::now();
  {
    std::lock_guard lock(computing_);
    compute(request, buffers);
  }
  const PeerReply reply{
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count())};
  connection.send(value_bytes(reply), Clock::now() + kMessageTime);
  connection.send({buffers.outputs.data(), request.choices * row_bytes}, Clock::now() + kMessageTime);
  std::lock_guard lock(mutex_);
  ++stats_.requests;
}

void ExpertPeer::compute(const PeerRequest& request, Buffers& buffers) {
  const ExpertLayout& layout = pack_.experts;
  const BlockLayout& matrices = layout.layers[request.layer];
  const ExpertId first = layout.shape.first_id(request.layer);
  buffers.group.clear();
  size_t begin = 0;
  for (const auto [index, count] : buffers.experts) {
    const std::byte* block = blocks_[first + index].data();
    buffers.group.push_back({matrices.matrix(block, Projection::kGate), matrices.matrix(block, Projection::kUp),
                             matrices.matrix(block, Projection::kDown), buffers.choices.data() + begin, count,
                             buffers.outputs.floats() + begin * layout.shape.width});
    begin += count;
  }
  expert_ffn(pool_, buffers.group, buffers.inputs.floats(), 1, layout.shape.activation, scratch_);
}

}  // namespace sida
