#include "ops/cuda/cuda_ops.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "core/error.h"
#include "ops/cuda/heads.h"
#include "ops/cuda/routing.h"
#include "ops/cuda/rows.h"
#include "ops/rotary_table.h"
#include "spec/relative_position.h"

namespace sida {
namespace {

/// Up to this many tokens what happens to their heads is one launch.
constexpr size_t kFewTokens = 64;

}  // namespace

CudaOps::CudaOps(const ModelSpec& spec, const ModelWeights& weights, DeviceMemory& memory, KvCache& cache,
                 const BatchLimits& limits)
    : spec_(spec),
      activations_(limits.activations),
      device_(static_cast<CudaBackend&>(memory.backend())),
      cache_(cache),
      work_(memory, spec, limits),
      uploads_(work_.uploads, work_.upload_bytes, device_.compute()),
      biases_(spec.stacks.size()),
      choices_stride_(cuda::choices_bytes(limits.max_batch_tokens, spec.top_k())),
      chosen_(make_cuda_host_array<std::byte>((kMostAhead + 1) * choices_stride_)),
      logits_(make_cuda_host_array<float>(kMaxLogitRows * spec.logit_columns())) {
  const size_t most = cache.shape().latent ? cuda::kMaxLatentRow : cuda::kMaxHeadDim;
  for (size_t layer = 0; layer < cache.shape().layers; ++layer) {
    const size_t head_dim = cache.layer(layer).head_dim;
    if (head_dim <= most) continue;
    throw Error("cannot_run",
                "heads of " + std::to_string(head_dim) + " columns exceed the cuda device's " + std::to_string(most));
  }
  cuda_check(cudaMemsetAsync(work_.arrived, 0, sizeof *work_.arrived, stream()), "cudaMemsetAsync");
  for (size_t stack = 0; stack < spec.stacks.size(); ++stack) {
    if (work_.biases[stack] != nullptr) upload_bias(stack, limits, weights.stacks[stack].position_bias);
  }
  if (limits.runs_alone()) device_passes_.emplace(*this, spec);
}

void CudaOps::wait() { cuda_check(cudaStreamSynchronize(stream()), "cudaStreamSynchronize"); }

void CudaOps::download(void* to, const void* from, size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "cudaMemcpyAsync");
}

void CudaOps::upload_bias(size_t stack, const BatchLimits& limits, const float* weight) {
  const StackSpec& spec = spec_.stacks[stack];
  const auto& relative = std::get<RelativeBias>(spec.positions);
  const size_t heads = spec.attention().heads, positions = bias_positions(spec, limits);
  std::vector<float> buckets(static_cast<size_t>(relative.buckets) * heads);
  download(buckets.data(), weight, buckets.size() * sizeof(float));
  wait();
  std::vector<float> values(PositionBias::floats(heads, positions));
  const PositionBias host(relative, heads, buckets.data(), !spec.causal, positions, values.data());
  float* to = work_.biases[stack];
  cuda_check(cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice, stream()),
             "cudaMemcpyAsync");
  wait();
  biases_[stack] = {to + (host.head(0) - values.data()), host.stride()};
}

void CudaOps::start(size_t stack, std::span<const SequenceSpan> sequences, size_t tokens) {
  held_ = {};
  ahead_queued_ = false;
  // A pass that ended with an error may have left kernels that read the uploads.
  wait();
  uploads_.start();
  stack_ = stack;
  tokens_ = tokens;
  tiles_.clear();
  tile_rows_ = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    tile_rows_ = std::max(tile_rows_, std::min(cuda::kTileRows, static_cast<uint32_t>(sequences[i].count)));
    for (uint32_t row = 0; row < sequences[i].count; row += cuda::kTileRows) {
      tiles_.push_back({static_cast<uint32_t>(i), row});
    }
  }
  const auto* tiles = uploads_.put(std::span<const cuda::RowTile>(tiles_));
  own_.clear();
  for (size_t group = 0; group < cache_.groups().size(); ++group) {
    own_.push_back(paged(sequences, tiles, group, false));
  }
  const bool cross = std::any_of(sequences.begin(), sequences.end(),
                                 [](const SequenceSpan& span) { return span.parent_pages != nullptr; });
  // Models with cross-attention have one group.
  parents_ = cross ? paged(sequences, tiles, 0, true) : cuda::PagedBatch{};
  rotary_tables_.clear();
  for (size_t i = 0; i < spec_.stacks[stack].ropes(); ++i) {
    rotary_tables_.push_back(upload_rotary(spec_.stacks[stack].rope(i), sequences, tokens));
  }
}

cuda::PagedBatch CudaOps::paged(std::span<const SequenceSpan> sequences, const cuda::RowTile* tiles, size_t group,
                                bool cross) {
  sequences_.clear();
  page_table_.clear();
  // Choices of one input follow each other, and share the pages of their parent.
  size_t latest = 0;
  for (const SequenceSpan& span : sequences) {
    const KvPages* pages = cross ? span.parent_pages : span.pages;
    uint32_t first = 0, first_page = 0;
    if (pages != nullptr) {
      const PageRun& run = (*pages)[group];
      if (!std::ranges::equal(run.ids, std::span(page_table_).subspan(latest))) {
        latest = page_table_.size();
        page_table_.insert(page_table_.end(), run.ids.begin(), run.ids.end());
      }
      first = static_cast<uint32_t>(latest);
      first_page = static_cast<uint32_t>(run.first);
    }
    const size_t keys = cross ? span.parent_keys : span.past + span.count;
    sequences_.push_back({static_cast<uint32_t>(span.begin), static_cast<uint32_t>(span.count),
                          static_cast<uint32_t>(span.past), static_cast<uint32_t>(keys), first, first_page});
  }
  const auto* on_device = uploads_.put(std::span<const cuda::PagedSequence>(sequences_));
  const size_t entries = cross ? cache_.pages() : most_page_entries(sequences.size(), cache_.groups()[group].pages);
  return {on_device, tiles, tiles_.size(), uploads_.put(std::span<const uint32_t>(page_table_), entries)};
}

cuda::RotaryTable CudaOps::upload_rotary(const Rope& rope, std::span<const SequenceSpan> sequences, size_t tokens) {
  const size_t half = rope.width() / 2;
  rotary_.resize(2 * tokens * half);
  float* sines = rotary_.data() + tokens * half;
  for (const SequenceSpan& span : sequences) {
    for (size_t row = 0; row < span.count; ++row) {
      const size_t at = (span.begin + row) * half;
      rotary_row(rope, span.past + row, rotary_.data() + at, sines + at);
    }
  }
  const float* table = uploads_.put(std::span<const float>(rotary_));
  return {table, table + tokens * half, half, rope.adjacent};
}

void CudaOps::embed(const PanelMatrix& embedding, std::span<const int32_t> tokens, float scale) {
  const int32_t* ids = uploads_.put(tokens);
  cuda::embed(embedding, ids, tokens.size(), scale, work_.activations.hidden, stream());
}

void CudaOps::add_row(const float* row, size_t tokens) {
  cuda::add_row(row, tokens, spec_.width, work_.activations.hidden, stream());
}

void CudaOps::add_positions(const Sinusoids& sinusoids, std::span<const uint32_t> positions) {
  const std::span<const float> frequencies(sinusoids.frequencies);
  const cuda::RowPositions at{uploads_.put(positions), positions.size(), spec_.width};
  const cuda::Frequencies by{uploads_.put(frequencies), frequencies.size()};
  cuda::add_sinusoids(at, by, work_.activations.hidden, stream());
}

void CudaOps::norm(const float* x, const NormWeights& weights, float epsilon, size_t rows, size_t width, float* y) {
  const cuda::RowNorm norm{weights.weight, weights.bias, epsilon};
  const Activations& a = work_.activations;
  if (held_.index() > 0 && x == a.hidden && y == a.normed && rows == tokens_) return launch_held(norm, y);
  cuda::norm(x, norm, rows, width, y, stream());
}

void CudaOps::launch_held(const cuda::RowNorm& norm, float* normed) {
  uploads_.send();
  const auto held = std::exchange(held_, {});
  if (const auto* one = std::get_if<HeldProduct>(&held)) {
    if (normed == nullptr) {
      cuda::gemm({&one->product, 1}, {one->product.w.k, 0, Epilogue::kAdd}, device_.compute());
    } else {
      cuda::gemm(one->product, Epilogue::kAdd, {work_.arrived, normed, norm}, device_.compute());
    }
  } else if (const auto* sum = std::get_if<HeldSum>(&held)) {
    cuda::add_expert_outputs(work_.outputs, sum->positions, sum->alpha, sum->tokens, sum->k, spec_.width,
                             work_.activations.hidden, device_.compute(), norm, normed);
  }
}

void CudaOps::linear(const float* x, size_t rows, std::span<const Product> products, Epilogue epilogue) {
  const auto alike = [&](const PanelMatrix& a, const PanelMatrix& b) {
    // A launch of rounded rows has one width.
    const bool fits = a.n == b.n || !rounds(a.format);
    return fits && a.format.type == b.format.type && a.format.group == b.format.group;
  };
  const bool adds = products.size() == 1 && products[0].y == work_.activations.hidden && epilogue == Epilogue::kAdd;
  if (adds && rows == tokens_ && !rounds(products[0].w.format)) {
    launch_held({}, nullptr);
    held_ = HeldProduct{{x, nullptr, 1, static_cast<uint32_t>(rows), products[0].w, products[0].y}};
    return;
  }
  std::optional<cuda::RoundedRows> codes;
  for (size_t begin = 0, end = 0; begin < products.size(); begin = end) {
    const PanelMatrix& first = products[begin].w;
    if (rounds(first.format) && !codes) codes = rounded(x, rows, first.k);
    products_.clear();
    for (; end < products.size() && products_.size() < cuda::kMaxProducts && alike(first, products[end].w); ++end) {
      products_.push_back({x, nullptr, 1, static_cast<uint32_t>(rows), products[end].w, products[end].y});
    }
    multiply(x, rounds(first.format) ? &*codes : nullptr, {first.k, 0, epilogue});
  }
}

void CudaOps::product(const float* x, size_t rows, const PanelMatrix& w, float* y, Epilogue epilogue) {
  const Product one{w, y};
  linear(x, rows, {&one, 1}, epilogue);
}

void CudaOps::clip(float* x, size_t count, float limit) { cuda::clip(x, count, limit, stream()); }

void CudaOps::clear(float* x, size_t count) {
  cuda_check(cudaMemsetAsync(x, 0, count * sizeof(float), stream()), "cudaMemsetAsync");
}

void CudaOps::add(const float* x, size_t count, float* y) { cuda::add(x, count, y, stream()); }

void CudaOps::scale(float* x, size_t count, const float* factor) { cuda::scale(x, count, 1, factor, stream()); }

void CudaOps::rotate(float* x, size_t heads, size_t head_dim, size_t rope) {
  cuda::rotate(x, {tokens_, heads, head_dim}, rotary_tables_[rope], stream());
}

cuda::CacheLayer CudaOps::cache_layer(size_t layer) const {
  const KvLayout::Layer& place = cache_.layer(layer);
  return {cache_.keys(0, layer, 0),
          cache_.page_elements(layer),
          place.key_elements(),
          static_cast<uint32_t>(place.heads),
          static_cast<uint32_t>(place.head_dim),
          static_cast<uint32_t>(place.head_dim_padded()),
          cache_.shape().format};
}

void CudaOps::write_kv(size_t layer) {
  cuda::write_keys(cache_layer(layer), own(layer), work_.activations.keys, stream());
  cuda::write_values(cache_layer(layer), own(layer), work_.activations.values, stream());
}

void CudaOps::prepare_heads(const HeadsTask& task) {
  const AttentionSpec& spec = *task.spec;
  if (spec.clip || task.tokens > kFewTokens) return Ops::prepare_heads(task);
  const Activations& a = work_.activations;
  const cuda::RotaryTable rotary = task.rotated ? rotary_tables_[spec.rope] : cuda::RotaryTable{};
  cuda::prepare_heads(cache_layer(task.cache_layer), own(task.cache_layer), tile_rows_,
                      {a.queries, a.keys, a.values, static_cast<uint32_t>(spec.heads), spec.qk_norm,
                       task.weights->query_norm, task.weights->key_norm, task.epsilon, rotary},
                      stream());
}

void CudaOps::attend(const AttendTask& task) {
  const cuda::AttentionBias bias = task.biased ? biases_[stack_] : cuda::AttentionBias{nullptr, 0};
  const auto window = static_cast<uint32_t>(std::min<size_t>(task.spec->window.value_or(UINT32_MAX), UINT32_MAX));
  cuda::attention(
      cache_layer(task.cache_layer), task.cross ? parents_ : own(task.cache_layer), work_.activations.queries,
      {static_cast<uint32_t>(task.spec->heads), task.spec->scale, bias, task.causal, window, task.sinks}, stream());
}

void CudaOps::feed_forward(const FfnWeights& weights, Activation activation, size_t tokens, float* y) {
  const float* normed = work_.activations.normed;
  if (gated(activation) && (rounds(weights.gate.format) || rounds(weights.up.format))) {
    product(normed, tokens, weights.gate, work_.up, Epilogue::kStore);
    product(normed, tokens, weights.up, work_.up, activation_epilogue(activation));
  } else if (gated(activation)) {
    const cuda::Product up{normed, nullptr, 1, static_cast<uint32_t>(tokens), weights.up, work_.up, weights.gate};
    cuda::gemm({&up, 1}, {weights.up.k, 0, activation_epilogue(activation)}, stream());
  } else {
    product(normed, tokens, weights.up, work_.up, activation_epilogue(activation));
  }
  PanelMatrix down = weights.down;
  if (const PanelMatrix& gate = weights.output_gate; gate.data != nullptr) {
    output_gates(gate, tokens);
    const cuda::OutputGates gates{work_.gates, tokens, gate.n};
    cuda::gate_rows(gates, weights.up.n, work_.up, stream());
    // The gates scale the hidden layer, which the last bias is not part of.
    if (down.bias != nullptr) cuda::add_gated_row(gates, down.bias, down.n, y, stream());
    down.bias = nullptr;
  }
  product(work_.up, tokens, down, y, Epilogue::kAdd);
}

void CudaOps::logits(const PanelMatrix& head, std::span<const int32_t> rows, const HeadSpec& spec, float* out) {
  const size_t before = uploads_.used();
  const int32_t* ids = uploads_.put(rows);
  cuda::take_rows(work_.activations.normed, ids, rows.size(), spec_.width, spec.scale, work_.head_rows, stream());
  product(work_.head_rows, rows.size(), head, work_.logits, Epilogue::kStore);
  if (spec.cap) cuda::soft_cap(work_.logits, rows.size() * head.n, *spec.cap, stream());
  cuda_check_launches("logits");
  const size_t bytes = rows.size() * head.n * sizeof(float);
  download(logits_.get(), work_.logits, bytes);
  wait();
  // The chunks of a pass's rows reuse the same upload memory.
  uploads_.rewind(before);
  std::memcpy(out, logits_.get(), bytes);
}

void CudaOps::states(size_t tokens, float* out) {
  queue_states(tokens, out);
  wait();
}

void CudaOps::queue_states(size_t tokens, float* out) {
  download(out, work_.activations.normed, tokens * spec_.width * sizeof(float));
}

void CudaOps::finish() {
  launch_held({}, nullptr);
  cuda_check_launches("pass");
  wait();
}

}  // namespace sida
