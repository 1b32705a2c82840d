#include "ops/cuda/cuda_device_passes.h"

#include <algorithm>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/routing.h"
#include "weights/expert_shape.h"

namespace sida {
namespace {

size_t most_moe_layers(const ModelSpec& spec) {
  size_t most = 0;
  for (const StackSpec& stack : spec.stacks) most = std::max(most, stack.moe_layers());
  return most;
}

/// Whether find_experts() makes all of the choices.
bool chosen_alone(const MoeSpec& moe, size_t choices) {
  const bool scaled = moe.shared && moe.shared->gate == SharedGate::kSoftmax;
  return !scaled && choices <= moe.router.capacity;
}

/// Null where the experts have none such.
const ExpertMatrix* find_matrix(const BlockLayout& block, Projection projection) {
  const auto found = std::ranges::find(block.matrices, projection, &ExpertMatrix::projection);
  return found == block.matrices.end() ? nullptr : &*found;
}

ptrdiff_t bytes_from(uint64_t first, uint64_t second) {
  return static_cast<ptrdiff_t>(second) - static_cast<ptrdiff_t>(first);
}

bool gates_in_one_launch(const ExpertMatrix& gate, const ExpertMatrix& up) {
  return gate.format == up.format && gate.bias.has_value() == up.bias.has_value();
}

cuda::BlockMatrix place_of(const BlockLayout& block, Projection projection) {
  const ExpertMatrix* matrix = find_matrix(block, projection);
  if (matrix == nullptr) return {0, cuda::kNoBias};
  return {matrix->offset, matrix->bias.value_or(cuda::kNoBias)};
}

}  // namespace

CudaDevicePasses::CudaDevicePasses(CudaOps& ops, const ModelSpec& spec)
    : ops_(ops),
      spec_(spec),
      experts_(expert_shape_of(spec).experts()),
      host_table_(make_cuda_host_array<std::byte>(cuda::table_bytes(experts_))),
      logs_(make_cuda_host_array<LayerLog>(std::max<size_t>(most_moe_layers(spec), 1))),
      on_device_(cuda::table_at(ops.work_.expert_table, experts_)),
      prefetches_(make_cuda_stream()),
      listed_(make_cuda_event()),
      prefetched_(make_cuda_event()) {
  const cuda::DeviceTable host = cuda::table_at(host_table_.get(), experts_);
  head_ = host.head;
  table_.prefetches = {host.prefetches, kMostLentPrefetches};
  table_.slot_of = {host.slot_of, experts_};
  table_.experts = {host.experts, experts_};
  table_.slots = {host.slots, experts_};
}

bool CudaDevicePasses::runs(size_t stack, size_t tokens) const {
  return tokens <= kMostDeviceChoices && std::ranges::all_of(spec_.stacks[stack].layers, [&](const LayerSpec& layer) {
           const MoeSpec* moe = layer.moe();
           if (moe == nullptr) return true;
           const size_t choices = tokens * moe->router.top_k;
           return choices <= kMostDeviceChoices && chosen_alone(*moe, choices);
         });
}

void CudaDevicePasses::run(FunctionRef<void()> layers) {
  // A pass that fails must not leave the log of another one.
  for (size_t turn = 0; turn < spec_.stacks[ops_.stack_].moe_layers(); ++turn) {
    logs_[turn].moves = logs_[turn].prefetches = 0;
  }
  upload_table();
  try {
    graphs_.run(shape(), ops_.stream(), [&] {
      layers();
      end_prefetches();
    });
  } catch (...) {
    cudaStreamSynchronize(prefetches_.get());  // nothing else waits for copies that it has begun
    throw;
  }
}

void CudaDevicePasses::begin_prefetches(size_t bytes) {
  if (table_.prefetch_count == 0) return;
  cuda_check(cudaEventRecord(listed_.get(), ops_.stream()), "cudaEventRecord");
  cuda_check(cudaStreamWaitEvent(prefetches_.get(), listed_.get(), 0), "cudaStreamWaitEvent");
  cuda::move_prefetches(ops_.work_.device_choices, bytes, prefetches_.get());
  cuda_check(cudaEventRecord(prefetched_.get(), prefetches_.get()), "cudaEventRecord");
}

void CudaDevicePasses::end_prefetches() {
  if (table_.prefetch_count == 0) return;
  cuda_check(cudaStreamWaitEvent(ops_.stream(), prefetched_.get(), 0), "cudaStreamWaitEvent");
}

void CudaDevicePasses::upload_table() {
  *head_ = {.clock = table_.clock,
            .expendable = table_.expendable,
            .slots = static_cast<uint32_t>(table_.slot_count),
            .prefetches = static_cast<uint32_t>(table_.prefetch_count),
            .newest_first = table_.newest_first ? 1U : 0U,
            .stopped = 0};
  const auto* end = reinterpret_cast<const std::byte*>(table_.all_resident ? table_.experts.data()
                                                                           : table_.experts.data() + experts_);
  cuda_check(cudaMemcpyAsync(ops_.work_.expert_table, host_table_.get(), static_cast<size_t>(end - host_table_.get()),
                             cudaMemcpyHostToDevice, ops_.stream()),
             "cudaMemcpyAsync");
  ops_.device_.compute_after_copies();
}

PassShape CudaDevicePasses::shape() const {
  PassShape shape{ops_.stack_, ops_.parents_.sequences != nullptr, table_.prefetch_count > 0, {}};
  for (const cuda::PagedSequence& sequence : ops_.sequences_) shape.counts.push_back(sequence.count);
  return shape;
}

uint32_t CudaDevicePasses::products_of(const DeviceMoeLayer& layer) const {
  return static_cast<uint32_t>(std::min(layer.tokens * layer.router->top_k, layer.weights->router.n));
}

void CudaDevicePasses::find_experts(const DeviceMoeLayer& layer) {
  const CudaWorkspace& work = ops_.work_;
  const RouterSpec& router = *layer.router;
  const float* x = ops_.router_rows(*layer.weights, router, layer.tokens);
  ops_.route(x, *layer.weights, router, layer.tokens, work.device_choices.expert, work.device_choices.alpha);
  const size_t moe_layer = layer.weights->moe_layer;
  const ExpertShape& shape = layer.layout->shape;
  const BlockLayout& block = layer.layout->layers[moe_layer];
  if (layer.turn > 0) end_prefetches();
  cuda::find_experts({.table = on_device_,
                      .choices = work.device_choices,
                      .log = &logs_[layer.turn],
                      .count = static_cast<uint32_t>(layer.tokens * router.top_k),
                      .k = static_cast<uint32_t>(router.top_k),
                      .most = products_of(layer),
                      .turn = static_cast<uint32_t>(layer.turn),
                      .first_of_pass = shape.first_id(layer.first_layer),
                      .first = shape.first_id(moe_layer),
                      .end = shape.first_id(moe_layer + 1),
                      .gate = place_of(block, Projection::kGate),
                      .up = place_of(block, Projection::kUp),
                      .down = place_of(block, Projection::kDown),
                      .x = work.activations.normed,
                      .hidden = work.up,
                      .outputs = work.outputs,
                      .width = static_cast<uint32_t>(shape.width),
                      .hidden_width = static_cast<uint32_t>(shape.hidden)},
                     ops_.stream());
  cuda::move_experts(work.device_choices, block.bytes, ops_.stream());
  begin_prefetches(layer.layout->slot_bytes);
}

void CudaDevicePasses::experts(const DeviceMoeLayer& layer) {
  const CudaWorkspace& work = ops_.work_;
  const ExpertShape& shape = layer.layout->shape;
  const BlockLayout& block = layer.layout->layers[layer.weights->moe_layer];
  std::optional<cuda::RoundedRows> codes;
  const float* x = work.activations.normed;
  const auto run = [&](Projection projection, Epilogue epilogue, const ExpertMatrix* gate) {
    const ExpertMatrix& matrix = *find_matrix(block, projection);
    cuda::ListedProducts products{.list = cuda::listed_products(work.device_choices, projection),
                                  .most = products_of(layer),
                                  .most_rows = static_cast<uint32_t>(layer.tokens),
                                  .form = {nullptr, matrix.format, matrix.k, matrix.n},
                                  .x_vectors = matrix.k % 4 == 0,
                                  .y_vectors = matrix.n % 4 == 0};
    if (gate != nullptr) {
      products.gate = cuda::GateOffsets{bytes_from(matrix.offset, gate->offset),
                                        bytes_from(matrix.bias.value_or(0), gate->bias.value_or(0))};
    }
    if (codes) return cuda::gemm_rounded(*codes, x, products, epilogue, ops_.stream());
    cuda::gemm(products, {matrix.k, 0, epilogue}, ops_.stream());
  };
  const ExpertMatrix* gate = find_matrix(block, Projection::kGate);
  const ExpertMatrix& up = *find_matrix(block, Projection::kUp);
  // As in CudaOps::run_experts().
  if (ops_.rounds(up.format) && (gate == nullptr || gate->format == up.format)) {
    codes = ops_.rounded(x, layer.tokens, shape.width);
  }
  if (gate != nullptr && (codes || !gates_in_one_launch(*gate, up))) {
    run(Projection::kGate, Epilogue::kStore, nullptr);
    gate = nullptr;
  }
  run(Projection::kUp, activation_epilogue(shape.activation), gate);
  codes.reset();
  x = work.up;
  if (ops_.rounds(block.format(Projection::kDown))) {
    const cuda::RowRange all{0, static_cast<uint32_t>(layer.tokens * layer.router->top_k)};
    codes = cuda::lay_out_rounded(work.rounded_hidden, all.count, shape.hidden);
    cuda::round_rows(x, shape.hidden, shape.hidden, {&all, 1}, *codes, ops_.stream());
  }
  run(Projection::kDown, Epilogue::kStore, nullptr);
  ops_.positions_ = work.device_choices.positions;
  ops_.alpha_ = work.device_choices.alphas;
}

}  // namespace sida
