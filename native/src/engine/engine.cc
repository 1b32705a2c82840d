#include "engine/engine.h"

#include <algorithm>
#include <chrono>

#include "checkpoint/gguf_experts.h"
#include "core/error.h"
#include "core/profile.h"
#include "engine/batch_check.h"
#include "engine/dense_loader.h"
#include "engine/devices.h"

namespace sida {

namespace {

/// Bytes per second where the disk was not measured.
constexpr double kUnmeasuredLoadRate = 1.5e9;

double load_rate(const ReadSettings& reads, const SimulatedLink& link) {
  const double disk = reads.bytes_per_second > 0 ? reads.bytes_per_second : kUnmeasuredLoadRate;
  return link.bandwidth > 0 ? std::min(disk, link.bandwidth) : disk;
}

/// 0 where the host's budget would not have room for an expert beside them.
uint64_t bytes_for_host_experts(const MemoryPlan& plan, const EngineOptions& options) {
  const bool room = plan.host_workspace + plan.block <= options.host_bytes;
  return options.cpu_experts.on && room ? plan.host_workspace : 0;
}

const PeerLinksOptions& with_peers(const EngineOptions& options) {
  if (options.peers.peers.empty() || options.limits.device == DeviceKind::kCpu) return options.peers;
  throw Error("invalid_request", "expert peers need the cpu device");
}

}  // namespace

Engine::Engine(const EngineOptions& options)
    : pack_(open_pack(options.pack)),
      limits_(fit_limits(pack_.spec, options.limits)),
      plan_(plan_memory(pack_, limits_)),
      slots_(plan_.slots_in(options.budget_bytes)),
      backend_(make_backend(limits_.device)),
      memory_(*backend_, options.budget_bytes, plan_.driver),
      dense_layout_(limits_.routers ? pack_.dense : without_routers(pack_.dense)),
      dense_(load_dense(memory_, pack_, dense_layout_)),
      cache_(memory_, KvShape::of(pack_.spec, limits_.kv), KvRoom(limits_)),
      disk_(open_experts(pack_)),
      host_experts_bytes_(bytes_for_host_experts(plan_, options)),
      host_(pack_.experts.slot_bytes, options.host_bytes - host_experts_bytes_, backend_->host_memory()),
      store_(pack_.experts, memory_, *disk_, host_, options.link, options.reads, slots_),
      planner_(pack_.experts.shape, options.eviction),
      weights_(view_weights(pack_.spec, dense_layout_, dense_.data())),
      ops_(make_ops(pack_.spec, weights_, memory_, cache_, limits_)),
      peers_(with_peers(options), pack_.experts, load_rate(store_.read_settings(), options.link)),
      host_experts_(store_, limits_, backend_->host_memory(), host_experts_bytes_, options.cpu_experts),
      model_(pack_.spec, weights_, *ops_, store_, peers_, host_experts_),
      logit_rows_(memory_, limits_.device, pack_.spec.logit_columns()),
      sequences_(pack_.spec, cache_) {}

void Engine::check(const Batch& batch) const {
  check_batch(batch, pack_.spec, limits_);
  sequences_.check(batch);
}

RunStats Engine::run(const Batch& batch, const PassPlan& plan, const BatchOutput& output) {
  const auto start = std::chrono::steady_clock::now();
  check(batch);
  const auto* needs = std::get_if<PassNeeds>(&plan);
  const size_t moe_layers = pack_.spec.stacks[batch.stack].moe_layers();
  if (needs != nullptr) check_needs(*needs, pack_.experts.shape, moe_layers);
  const PredictedRouting* routing = batch.routing.k > 0 ? &batch.routing : nullptr;
  if (routing != nullptr && output.router_logits != nullptr) {
    throw Error("invalid_request", "batch: a pass with a routing of its own has no router logits");
  }
  if (const MoeSpec* moe = pack_.spec.moe(); routing != nullptr && moe != nullptr) {
    if (moe->router.scores == RouterScores::kSigmoid && !moe->router.normalized) {
      throw Error("invalid_request",
                  "batch: a pass cannot have a routing of its own: this model's routers scale experts by sigmoids as "
                  "they are, of which tables know only the shares");
    }
  }
  const bool last = batch.stack + 1 == pack_.spec.stacks.size();
  const ProfileScope scope(last ? ProfileOp::kDecoderPass : ProfileOp::kEncoderPass,
                           {.tokens = static_cast<int32_t>(batch.tokens.size())});
  SequencePass pass(sequences_, batch);
  const RoutingTrace trace{output.dispatch, output.found,      output.router_logits,
                           routing,         batch.route_ahead, batch.whole_layers};
  bool alone = may_run_alone(batch, trace);
  if (needs != nullptr) {
    store_.start_pass(planner_, *needs, !alone);
  } else {
    store_.start_pass(std::get<ResidencyPlan>(plan), !alone);
  }
  try {
    alone = run_model(batch, pass.spans(), trace, alone);
    logit_rows_.answer(model_, batch, output);
    if (output.hidden_states != nullptr) model_.states(batch.tokens.size(), output.hidden_states);
  } catch (...) {
    // The figures of a pass that failed are not those of the next one.
    static_cast<void>(store_.take_stats());
    static_cast<void>(peers_.take_wait_ns());
    throw;
  }
  pass.keep();
  RunStats stats{store_.take_stats()};
  stats.alone = alone;
  if (!alone && stats.disk_reads == 0 && passes_to_wait_ > 0) --passes_to_wait_;
  stats.peer_wait_ns = peers_.take_wait_ns();
  stats.stall_ns += stats.peer_wait_ns;
  if (needs != nullptr) planner_.learn(*needs, {output.found, moe_layers * pack_.spec.experts()});
  stats.pass_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  return stats;
}

bool Engine::may_run_alone(const Batch& batch, const RoutingTrace& trace) const {
  const DevicePasses* passes = ops_->device_passes();
  if (passes == nullptr || !passes->runs(batch.stack, batch.tokens.size())) return false;
  if (trace.predicted != nullptr || trace.router_logits != nullptr || trace.whole_layers) return false;
  if (pack_.spec.stacks[batch.stack].moe_layers() == 0) return true;
  // The device does not route ahead for a missing expert, nor ask the CPU for it.
  const bool asks_host = batch.route_ahead > 0 || host_experts_.on();
  return passes_to_wait_ == 0 && (!asks_host || store_.slots() == plan_.experts);
}

bool Engine::lend(const Batch& batch) {
  SlotTable& table = ops_->device_passes()->table();
  const StackSpec& stack = pack_.spec.stacks[batch.stack];
  if (stack.moe_layers() == 0) {
    store_.prefetch();
    table.slot_count = table.prefetch_count = 0;
    table.all_resident = true;
    return true;
  }
  // A pass that stops is run again, and a recurrent state cannot be taken back.
  const bool recurrent =
      std::ranges::any_of(stack.layers, [](const LayerSpec& layer) { return layer.delta.has_value(); });
  const size_t most = std::min(batch.tokens.size() * pack_.spec.top_k(), pack_.spec.experts());
  return store_.lend(table, most, recurrent);
}

bool Engine::run_model(const Batch& batch, std::span<const SequenceSpan> spans, RoutingTrace trace,
                       bool may_run_alone) {
  if (may_run_alone && lend(batch)) {
    trace.alone = ops_->device_passes();
    if (model_.run(batch.stack, batch.tokens, spans, trace)) {
      passes_lost_ /= 2;
      return true;
    }
    trace.alone = nullptr;
    passes_lost_ = std::min(2 * passes_lost_ + 1, kMostPassesToWait);
    passes_to_wait_ = passes_lost_;
  }
  if (may_run_alone) store_.prefetch();
  model_.run(batch.stack, batch.tokens, spans, trace);
  return false;
}

void Engine::set_budget(uint64_t bytes) {
  const size_t slots = plan_.slots_in(bytes);
  const uint64_t before = memory_.budget();
  if (bytes > before) memory_.set_budget(bytes);
  try {
    store_.resize(slots);
  } catch (...) {
    store_.resize(slots_);
    memory_.set_budget(before);
    throw;
  }
  slots_ = slots;
  if (bytes < before) memory_.set_budget(bytes);
}

void Engine::check_integrity() const {
  store_.check_integrity();
  sequences_.check_integrity();
}

}  // namespace sida
