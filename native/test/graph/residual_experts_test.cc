// Layers with different numbers of experts, each expert beside a network that all tokens use (PR-MoE): a whole model of
// them against float64, on every device and at several numbers of expert slots.
#include "expert/expert_store.h"
#include "graph/model.h"
#include "support/ops_fixture.h"
#include "weights/dense_layout.h"
#include "weights/expert_shape.h"

namespace {

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

/// The final state of a token: h += p · expert(x) · c0 + network(x) · c1 in each layer, the expert that of the largest
/// router probability p, (c0, c1) = softmax(W · x + b). `chosen` receives each layer's expert.
Doubles reference(const ModelSpec& spec, const ModelWeights& weights, const ExpertLayout& layout,
                  const std::byte* blocks, int32_t token, std::vector<uint16_t>& chosen) {
  const StackWeights& stack = weights.stacks[0];
  const auto norm = [&](const Doubles& x, const NormWeights& with) {
    return layer_norm64(x, with.weight, with.bias, static_cast<double>(spec.norm_epsilon));
  };
  Doubles h = row64(stack.embedding, token);
  size_t first = 0;
  for (size_t layer = 0; layer < std::size(kCounts); ++layer) {
    const FeedForwardWeights& own = stack.layers[layer].feed_forward;
    const Doubles x = norm(h, own.norm), p = softmax64(product64(own.router, x));
    chosen.push_back(largest(p, 1)[0]);
    const std::byte* block = blocks + (first + chosen.back()) * layout.slot_bytes;
    const BlockLayout& matrices = layout.layers[0];
    const Doubles expert =
        relu_network64(matrices.matrix(block, Projection::kUp), matrices.matrix(block, Projection::kDown), x);
    const Doubles residual = relu_network64(own.ffn.up, own.ffn.down, x);
    const Doubles c = softmax64(product64(own.ffn.output_gate, x));
    for (size_t i = 0; i < h.size(); ++i) h[i] += p[chosen.back()] * expert[i] * c[0] + residual[i] * c[1];
    first += kCounts[layer];
  }
  return norm(h, stack.final_norm);
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
    write_to(*backend, on_device.data(), dense.data(), dense.size());
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
    const Doubles row = reference(files.spec, weights, files.layout, files.blocks.data(), token, chosen.back());
    expected.insert(expected.end(), row.begin(), row.end());
  }
  for (const DeviceKind kind : devices()) {
    CASE(device_name(kind));
    std::vector<float> resident;
    for (const size_t slots : {files.layout.experts(), size_t{4}, size_t{1}}) {
      CASE(slots);
      const PassResult found = files.run(kind, slots, tokens);
      check_near(found.states, expected, 2e-5);
      if (resident.empty()) resident = found.states;
      CHECK(same_bits(found.states, resident));
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
