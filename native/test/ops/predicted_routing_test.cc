// Predicted mode: a table routes in place of the model's routers, up to three experts a token.
#include "support/float64.h"
#include "support/oracle_cases.h"
#include "support/routing_table.h"

namespace {

constexpr BatchLimits kLimits{320, 1024, 2, 3, false};

/// Overwrites the tensors of a pack's dense file whose names end in one of `suffixes`.
void fill_dense(const std::string& directory, const std::vector<std::string>& suffixes, char value) {
  const Pack pack = open_pack(directory);
  std::fstream file(pack.dense_path(), std::ios::in | std::ios::out | std::ios::binary);
  for (const DenseTensor& tensor : pack.dense.tensors) {
    if (std::ranges::none_of(suffixes, [&](const auto& suffix) { return tensor.name.ends_with(suffix); })) continue;
    file.seekp(static_cast<std::streamoff>(tensor.offset));
    file << std::string(tensor.bytes, value);
  }
}

/// A stack of a pack whose attention and dense layers add nothing, in float64, token by token:
/// h += Σ alpha_j · E_j(norm(h)) in each MoE layer.
class MixtureReference {
 public:
  explicit MixtureReference(const std::string& directory)
      : pack_(open_pack(directory)),
        dense_(read_text_file(pack_.dense_path())),
        experts_(read_text_file(pack_.expert_path())),
        weights_(view_weights(pack_.spec, pack_.dense, bytes(dense_))) {}

  /// Final hidden states (tokens, d_model) of a batch with a routing. `dispatch` receives the entries within capacity.
  Doubles run(const Batch& batch, std::vector<uint16_t>& dispatch) const {
    const StackWeights& stack = weights_.stacks[batch.stack];
    const PredictedRouting& routing = batch.routing;
    const auto norm = [&](const Doubles& x, const NormWeights& with) {
      return rms_norm64(x, with.weight, static_cast<double>(pack_.spec.norm_epsilon));
    };
    std::vector<Doubles> hidden;
    for (const int32_t token : batch.tokens) hidden.push_back(row64(stack.embedding, token));
    dispatch.assign(routing.experts.begin(), routing.experts.end());
    size_t entry = 0;
    for (size_t i = 0; i < stack.layers.size(); ++i) {
      const FeedForwardWeights& layer = stack.layers[i].feed_forward;
      const MoeSpec* moe = pack_.spec.stacks[batch.stack].layers[i].moe();
      if (moe == nullptr) continue;
      const BlockLayout& matrices = pack_.experts.layers[layer.moe_layer];
      for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
        std::vector<size_t> taken(moe->experts);
        for (auto token = static_cast<size_t>(batch.offsets[s]); token < static_cast<size_t>(batch.offsets[s + 1]);
             ++token) {
          const Doubles x = norm(hidden[token], layer.norm);
          for (size_t j = 0; j < routing.k; ++j, ++entry) {
            if (dispatch[entry] == kNoExpert) continue;
            if (taken[dispatch[entry]]++ >= moe->router.capacity) {
              dispatch[entry] = kNoExpert;
              continue;
            }
            const size_t id = layer.moe_layer * pack_.experts.shape.experts_per_layer + dispatch[entry];
            const std::byte* block = bytes(experts_) + id * pack_.experts.slot_bytes;
            const Doubles y =
                relu_network64(matrices.matrix(block, Projection::kUp), matrices.matrix(block, Projection::kDown), x);
            for (size_t c = 0; c < y.size(); ++c) hidden[token][c] += static_cast<double>(routing.alpha[entry]) * y[c];
          }
        }
      }
    }
    Doubles out;
    for (const Doubles& h : hidden) {
      const Doubles last = norm(h, stack.final_norm);
      out.insert(out.end(), last.begin(), last.end());
    }
    return out;
  }

 private:
  static const std::byte* bytes(const std::string& text) { return reinterpret_cast<const std::byte*>(text.data()); }

  Pack pack_;
  std::string dense_, experts_;
  ModelWeights weights_;
};

/// Three sequences of a batch, and decoder sequences with as many tokens after them.
struct Ragged {
  std::vector<int32_t> contexts{1, 2, 3}, sequences{11, 12, 13}, offsets{0, 40, 47, 60}, tokens;

  Ragged() {
    for (int32_t i = 0; i < 60; ++i) tokens.push_back(3 + i * 37 % 500);
  }
  Batch encode(const Table& table) const {
    Batch batch = pass_of(0, contexts, offsets, tokens);
    batch.routing = table.view();
    return batch;
  }
  Batch decode(const Table& table) const {
    Batch batch = pass_of(1, sequences, offsets, tokens, contexts);
    batch.routing = table.view();
    return batch;
  }
  /// Runs both stacks and releases all sequences.
  std::pair<Run, Run> run_both(Engine& engine, const Table& encoder, const Table& decoder) const {
    std::pair<Run, Run> out{run(engine, encode(encoder)), run(engine, decode(decoder))};
    engine.release_sequences(sequences);
    engine.release_sequences(contexts);
    return out;
  }
};

void check_against_reference(const Table& encoder, const Table& decoder) {
  const PackedFixture f("switch-tiny-capacity4");
  fill_dense(f.pack.path(), {"output", ".down"}, 0);
  const MixtureReference reference(f.pack.path());
  const Ragged ragged;
  Engine engine = f.open(kLimits, 0.5);
  const auto [encoded, decoded] = ragged.run_both(engine, encoder, decoder);
  for (const auto& [found, batch] : {std::pair{&encoded, ragged.encode(encoder)}, {&decoded, ragged.decode(decoder)}}) {
    std::vector<uint16_t> dispatch;
    check_near(found->hidden, reference.run(batch, dispatch), 1e-5);
    CHECK(found->dispatch == dispatch);
    for (const auto& [layer, expert] : grid(Sizes{0, 1}, Sizes{0, 1, 2, 3, 4, 5, 6, 7})) {
      const auto own = part_of(dispatch, layer * dispatch.size() / 2, dispatch.size() / 2);
      CHECK((found->found[layer * 8 + expert] != 0) == (std::ranges::count(own, expert) > 0));
    }
  }
}

TEST_CASE("predicted routing: three experts a token sum as a float64 loop over the packed experts does") {
  check_against_reference(random_table(2, 60, 3, 8, 1), random_table(2, 60, 3, 8, 2));
}

TEST_CASE("predicted routing: one expert for all tokens serves its capacity, and no expert adds nothing") {
  const size_t entries = 2 * 60 * 3;
  const Table nobody{std::vector<uint16_t>(entries, kNoExpert), std::vector<float>(entries, 1.0f), 3};
  Table crowd = nobody;
  for (size_t i = 2; i < entries; i += 3) crowd.experts[i] = 5;
  check_against_reference(crowd, nobody);
  check_against_reference(nobody, crowd);
}

TEST_CASE("predicted routing: the same bits at every budget, thread count, choice order and residency") {
  const PackedFixture f("switch-tiny-untied");
  const Ragged ragged;
  const Table encoder = random_table(2, 60, 3, 8, 3), decoder = random_table(2, 60, 3, 8, 4);
  const auto reversed = [](Table table) {
    for (size_t i = 0; i < table.experts.size(); i += 3) {
      std::swap(table.experts[i], table.experts[i + 2]);
      std::swap(table.alpha[i], table.alpha[i + 2]);
    }
    return table;
  };
  std::vector<float> encoded, decoded;
  for (const auto& [share, threads] : grid(std::vector{0.0, 0.5, 1.0}, Sizes{1, 2, 3})) {
    BatchLimits limits = kLimits;
    limits.threads = threads;
    Engine engine = f.open(limits, share);
    // Pinned experts are resident before those of lower index.
    if (share > 0) engine.store().pin(std::vector<ExpertId>{6, 7, 14, 15, 22, 23, 30, 31}, true);
    for (const bool reverse : kBoth) {
      // No expert reaches its capacity of 64, so the order of a token's choices must not change the result.
      const auto [first, second] =
          ragged.run_both(engine, reverse ? reversed(encoder) : encoder, reverse ? reversed(decoder) : decoder);
      if (encoded.empty()) encoded = first.hidden, decoded = second.hidden;
      CASE(share, threads, reverse);
      CHECK(same_bits(first.hidden, encoded));
      CHECK(same_bits(second.hidden, decoded));
    }
  }
}

TEST_CASE("predicted routing: routers left off the device are neither read nor counted") {
  const PackedFixture f("switch-tiny-untied");
  const Ragged ragged;
  const Table encoder = random_table(2, 60, 3, 8, 5), decoder = random_table(2, 60, 3, 8, 6);
  BatchLimits with = kLimits;
  with.routers = true;
  Engine beside = f.open(with);
  CHECK(beside.memory().used() == beside.plan().resident());
  const auto expected = ragged.run_both(beside, encoder, decoder);
  fill_dense(f.pack.path(), {".router"}, '\xff');
  Engine engine = f.open(kLimits);
  CHECK(engine.plan().routers == 0);
  CHECK(engine.memory().used() == engine.plan().resident());
  const auto found = ragged.run_both(engine, encoder, decoder);
  CHECK(same_bits(found.first.hidden, expected.first.hidden));
  CHECK(same_bits(found.second.hidden, expected.second.hidden));
}

TEST_CASE("predicted routing: a malformed table is refused by layer and token, and leaves nothing behind") {
  const PackedFixture f("switch-tiny-untied");
  const Ragged ragged;
  const Table good = random_table(2, 60, 3, 8, 7);
  Engine engine = f.open(kLimits, 0);
  const auto refused = [&](const Table& table, const std::string& message) {
    CHECK(error_of([&] { run(engine, ragged.encode(table)); }, "invalid_request") == "batch: " + message);
    CHECK(engine.cache().free_pages() == engine.cache().pages());
  };
  // Layer 1, token 20, entries 0 to 2.
  const size_t entry = (60 + 20) * 3;
  const std::string place = "routing of encoder.3, token 20: ",
                    expected = " entries; expected 360 (2 layers, 60 tokens, k 3)";
  Table table = good;
  table.experts[entry + 1] = 8;
  refused(table, place + "expert 8 of 8");
  table = good;
  table.experts[entry] = table.experts[entry + 2] = 4;
  table.experts[entry + 1] = kNoExpert;
  refused(table, place + "expert 4 is named twice");
  for (const float bad : {NAN, -kInfinity}) {
    table = good;
    table.alpha[entry + 2] = bad;
    refused(table, place + "alpha is not finite");
  }
  table = good;
  table.alpha.pop_back();
  refused(table, "routing.alpha has 359" + expected);
  refused({{}, {}, 3}, "routing.experts has 0" + expected);
  refused({good.experts, good.alpha, 4}, "routing names 4 experts a token; the limit is 3");
  refused({{}, {}, 0}, "no routing, and the routers are not on the device");

  BatchOutput output;
  float logits = 0;
  output.router_logits = &logits;
  CHECK_THROWS_WITH(engine.run(ragged.encode(good), {}, output),
                    "batch: a pass with a routing of its own has no router logits");
  run(engine, ragged.encode(good));
}

}  // namespace
