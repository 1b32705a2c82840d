// Layers with different numbers of experts, each expert beside a network that all tokens use (PR-MoE): a whole model of
// them against float64, on every device and at several numbers of expert slots.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "doctest/doctest.h"
#include "expert/expert_store.h"
#include "model/dense_layout.h"
#include "model/expert_shape.h"
#include "model/model.h"
#include "support/devices.h"
#include "support/ops_fixture.h"
#include "support/repo_paths.h"

namespace sida {
namespace {

using namespace testing;

constexpr size_t kModelWidth = 24, kHiddenWidth = 20, kVocab = 40;
constexpr size_t kCounts[] = {2, 5, 3};

/// A decoder of sparse layers alone.
ModelSpec pyramid_spec() {
  ModelSpec spec;
  spec.family = "test";
  spec.vocab = kVocab;
  spec.width = kModelWidth;
  spec.norm = NormKind::kLayer;
  AttentionSpec attention;
  attention.heads = attention.kv_heads = 2;
  attention.head_dim = kModelWidth / 2;
  const FfnSpec ffn{kHiddenWidth, Activation::kRelu, true};
  StackSpec stack{"decoder", true, Rope{{1.0f}, 1.0f}, {}};
  for (const size_t experts : kCounts) {
    MoeSpec moe;
    moe.experts = experts;
    moe.expert = ffn;
    moe.shared = SharedExpertSpec{ffn, SharedGate::kSoftmax};
    stack.layers.push_back({attention, std::nullopt, moe});
  }
  spec.stacks.push_back(std::move(stack));
  spec.head.tied = true;
  return spec;
}

std::vector<float> random_weights(size_t n, size_t k, unsigned seed) {
  std::vector<float> weights = random_floats(n * k, seed);
  for (float& weight : weights) weight *= 1.5f / std::sqrt(static_cast<float>(k));
  return weights;
}

void put(const std::vector<float>& values, std::byte* to) {
  std::memcpy(to, values.data(), values.size() * sizeof(float));
}

/// A dense file of random weights, whose attention adds nothing.
std::vector<std::byte> random_dense(const DenseLayout& layout) {
  std::vector<std::byte> dense(layout.bytes);
  unsigned seed = 1;
  for (const DenseTensor& tensor : layout.tensors) {
    std::byte* to = dense.data() + tensor.offset;
    const size_t rows = tensor.rows(), columns = tensor.columns();
    std::vector<float> weights = random_weights(rows, columns, seed++);
    if (tensor.slot.role == TensorRole::kAttentionOutput) std::fill(weights.begin(), weights.end(), 0.0f);
    if (tensor.panels()) {
      pack_panels(weights.data(), rows, columns, kF32Format, to);
    } else {
      put(weights, to);
    }
  }
  return dense;
}

/// The blocks of all experts, one after the other.
std::vector<std::byte> random_blocks(const ExpertLayout& layout) {
  std::vector<std::byte> blocks(layout.experts() * layout.slot_bytes);
  unsigned seed = 1000;
  for (size_t id = 0; id < layout.experts(); ++id) {
    std::byte* block = blocks.data() + id * layout.slot_bytes;
    for (const ExpertMatrix& matrix : layout.layers[0].matrices) {
      pack_panels(random_weights(matrix.n, matrix.k, seed++).data(), matrix.n, matrix.k, kF32Format,
                  block + matrix.offset);
      put(random_floats(matrix.n, seed++), block + *matrix.bias);
    }
  }
  return blocks;
}

using Row = std::vector<double>;

Row product_of(const PanelMatrix& matrix, const Row& x) {
  Row y;
  std::vector<float> row(matrix.k);
  for (size_t n = 0; n < matrix.n; ++n) {
    read_panel_row(matrix, n, row.data());
    double sum = matrix.bias == nullptr ? 0 : static_cast<double>(matrix.bias[n]);
    for (size_t k = 0; k < matrix.k; ++k) sum += static_cast<double>(row[k]) * x[k];
    y.push_back(sum);
  }
  return y;
}

Row network(const PanelMatrix& up, const PanelMatrix& down, const Row& x) {
  Row hidden = product_of(up, x);
  for (double& value : hidden) value = std::max(value, 0.0);
  return product_of(down, hidden);
}

Row layer_norm(const Row& x, const NormWeights& weights, double epsilon) {
  const auto n = static_cast<double>(x.size());
  double sum = 0, squares = 0;
  for (const double value : x) sum += value;
  for (const double value : x) squares += (value - sum / n) * (value - sum / n);
  Row y;
  for (size_t i = 0; i < x.size(); ++i) {
    y.push_back((x[i] - sum / n) / std::sqrt(squares / n + epsilon) * static_cast<double>(weights.weight[i]) +
                static_cast<double>(weights.bias[i]));
  }
  return y;
}

Row softmax(Row x) {
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
  return x;
}

/// The final state of a token: h += p · expert(x) · c0 + network(x) · c1 in each layer, the expert that of the largest
/// router probability p, (c0, c1) = softmax(W · x + b). `chosen` receives each layer's expert.
Row reference(const ModelSpec& spec, const ModelWeights& weights, const ExpertLayout& layout, const std::byte* blocks,
              int32_t token, std::vector<uint16_t>& chosen) {
  const StackWeights& stack = weights.stacks[0];
  std::vector<float> embedded(kModelWidth);
  read_panel_row(stack.embedding, static_cast<size_t>(token), embedded.data());
  Row h(embedded.begin(), embedded.end());
  size_t first = 0;
  for (size_t layer = 0; layer < std::size(kCounts); ++layer) {
    const FeedForwardWeights& own = stack.layers[layer].feed_forward;
    const Row x = layer_norm(h, own.norm, static_cast<double>(spec.norm_epsilon));
    const Row p = softmax(product_of(own.router, x));
    const auto best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
    chosen.push_back(static_cast<uint16_t>(best));
    const std::byte* block = blocks + (first + best) * layout.slot_bytes;
    const BlockLayout& matrices = layout.layers[0];
    const Row expert = network(matrices.matrix(block, Projection::kUp), matrices.matrix(block, Projection::kDown), x);
    const Row residual = network(own.ffn.up, own.ffn.down, x);
    const Row c = softmax(product_of(own.ffn.output_gate, x));
    for (size_t i = 0; i < h.size(); ++i) h[i] += p[best] * expert[i] * c[0] + residual[i] * c[1];
    first += kCounts[layer];
  }
  return layer_norm(h, stack.final_norm, static_cast<double>(spec.norm_epsilon));
}

/// Copies from the host's memory to the device's.
void send(Backend& backend, std::byte* target, const std::vector<std::byte>& bytes) {
  const auto writer = backend.writer();
  writer->begin(bytes.size());
  std::byte* buffer = writer->buffer_for(target, bytes.size());
  std::memcpy(buffer, bytes.data(), bytes.size());
  writer->send(target, buffer, bytes.size());
  writer->finish();
}

struct PassResult {
  std::vector<float> states, router_logits;
  std::vector<uint16_t> dispatch;
};

struct Files {
  ModelSpec spec = pyramid_spec();
  DenseLayout dense_layout = make_dense_layout(spec, kF32Format);
  ExpertLayout layout = make_expert_layout(expert_shape_of(spec), kF32Format);
  std::vector<std::byte> dense = random_dense(dense_layout);
  std::vector<std::byte> blocks = random_blocks(layout);
  TempDir directory;
  StripeLayout striped{{1, "test"}, layout.experts(), layout.slot_bytes};
  std::string path = directory.path() + "/" + expert_file_name({}, 0);

  Files() {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
    const std::string seal = striped.seal(0);
    file.seekp(static_cast<std::streamoff>(striped.blocks_end(0)));
    file << seal;
  }

  PassResult run(DeviceKind kind, size_t slots, const std::vector<int32_t>& tokens) const {
    BatchLimits limits{tokens.size(), 64, 2};
    limits.device = kind;
    const auto backend = make_backend(kind);
    DeviceMemory memory(*backend, uint64_t{1} << 30);
    DeviceBuffer on_device(memory, dense.size());
    send(*backend, on_device.data(), dense);
    const ModelWeights weights = view_weights(spec, dense_layout, on_device.data());
    KvCache cache(memory, KvShape::of(spec, limits.kv), KvRoom(limits));
    DiskTier disk(striped, {path});
    HostTier host(layout.slot_bytes, 0, backend->host_memory());
    ExpertStore store(layout, memory, disk, host, {}, {}, slots);
    const auto ops = make_ops(spec, weights, memory, cache, limits);
    Model model(spec, weights, *ops, store);
    KvPages pages;
    cache.grow(pages, 0, tokens.size());
    const SequenceSpan span{0, tokens.size(), 0, &pages};
    const size_t layers = std::size(kCounts), width = spec.experts();
    PassResult result;
    result.states.resize(tokens.size() * kModelWidth);
    result.router_logits.resize(layers * tokens.size() * width);
    result.dispatch.resize(layers * tokens.size());
    std::vector<uint8_t> found(layers * width);
    for (int pass = 0; pass < 2; ++pass) {
      store.start_pass({});
      model.run(0, tokens, {&span, 1}, {result.dispatch.data(), found.data(), result.router_logits.data()});
      model.states(tokens.size(), result.states.data());
      store.check_integrity();
    }
    return result;
  }
};

TEST_CASE("residual experts: layers of 2, 5 and 3 experts beside a network each are those of float64") {
  const Files files;
  CHECK(files.layout.experts() == 10);
  CHECK(files.spec.experts() == 5);
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < 33; ++token) tokens.push_back(token * 7 % static_cast<int32_t>(kVocab));
  const ModelWeights weights = view_weights(files.spec, files.dense_layout, files.dense.data());
  std::vector<double> expected;
  std::vector<std::vector<uint16_t>> chosen;
  for (const int32_t token : tokens) {
    chosen.emplace_back();
    const Row row = reference(files.spec, weights, files.layout, files.blocks.data(), token, chosen.back());
    expected.insert(expected.end(), row.begin(), row.end());
  }
  for (const DeviceKind kind : devices()) {
    CAPTURE(device_name(kind));
    std::vector<float> resident;
    for (const size_t slots : {files.layout.experts(), size_t{4}, size_t{1}}) {
      CAPTURE(slots);
      const PassResult found = files.run(kind, slots, tokens);
      check_near(found.states, expected, 2e-5);
      if (resident.empty()) resident = found.states;
      CHECK(same_bits(found.states.data(), resident.data(), resident.size()));
      for (size_t layer = 0; layer < std::size(kCounts); ++layer) {
        for (size_t t = 0; t < tokens.size(); ++t) {
          CHECK(found.dispatch[layer * tokens.size() + t] == chosen[t][layer]);
          // Experts that a layer does not have are never likely.
          const float* logits = &found.router_logits[(layer * tokens.size() + t) * files.spec.experts()];
          for (size_t e = 0; e < files.spec.experts(); ++e) CHECK(std::isfinite(logits[e]) == (e < kCounts[layer]));
        }
      }
    }
  }
}

TEST_CASE("residual experts: experts are numbered without gaps, layer after layer") {
  const ExpertShape shape = expert_shape_of(pyramid_spec());
  CHECK(shape.first_id(0) == 0);
  CHECK(shape.first_id(1) == 2);
  CHECK(shape.first_id(2) == 7);
  CHECK(shape.experts() == 10);
  size_t id = 0;
  for (size_t layer = 0; layer < std::size(kCounts); ++layer) {
    for (size_t index = 0; index < kCounts[layer]; ++index, ++id) {
      CHECK(shape.place(static_cast<ExpertId>(id)).layer == layer);
      CHECK(shape.place(static_cast<ExpertId>(id)).index == index);
    }
  }
  std::vector<std::string> labels;
  const ModelSpec spec = pyramid_spec();
  for_each_slot(spec, [&](const TensorSlot& slot) { labels.push_back(slot.label(spec)); });
  const auto has = [&](const char* label) { return std::count(labels.begin(), labels.end(), label) == 1; };
  CHECK(has("decoder.0.expert.1.up_bias"));
  CHECK(!has("decoder.0.expert.2.up"));
  CHECK(has("decoder.1.expert.4.down"));
  CHECK(!has("decoder.2.expert.3.up"));
  CHECK(has("decoder.1.shared_up_bias"));
  CHECK(has("decoder.1.shared_output_gate"));
  CHECK(has("decoder.1.shared_output_gate_bias"));
}

}  // namespace
}  // namespace sida
