// PR-MoE (arXiv 2201.05596, section 4.1): layers with 2, 8 and 4 experts, whose outputs are weighed against a dense
// network's.
#include "support/checkpoint_directory.h"
#include "support/float64.h"
#include "support/oracle_cases.h"
#include "support/routing_table.h"

namespace {

const std::string kResidualConfig =
    R"({"model_type":"switch_transformers","vocab_size":10,"d_model":8,"d_kv":4,"d_ff":12,"num_heads":2,)"
    R"("num_layers":4,"num_sparse_encoder_layers":2,"num_decoder_layers":2,"num_sparse_decoder_layers":1,)"
    R"("num_experts":[2,8,4],"mlp_type":"residual","relative_attention_num_buckets":8,)"
    R"("relative_attention_max_distance":16})";
const Sizes kPyramid{2, 8, 4};
constexpr size_t kWidestLayer = 8, kModelWidth = 8, kQueryHeads = 2, kHeadColumns = 4;
constexpr int kDistanceBuckets = 8, kMaxDistance = 16;

const std::vector<int32_t> kEncoded{3, 7, 2, 9, 5, 5, 1, 8, 4, 6, 2}, kDecoded{0, 6, 3, 9};

Tensors random_checkpoint() {
  Tensors tensors = tiny_tensors(kResidualConfig);
  unsigned seed = 0;
  for (BuiltTensor& tensor : tensors) tensor.data = bytes_of(random_floats(tensor.data.size() / 4, ++seed));
  return tensors;
}

/// The model as its papers describe it, in float64, by the names of the checkpoint.
class ResidualModel {
 public:
  using Rows = std::vector<Doubles>;

  explicit ResidualModel(const Tensors& tensors) {
    for (const BuiltTensor& tensor : tensors) {
      std::vector<float>& values = values_[tensor.name];
      values.resize(tensor.data.size() / sizeof(float));
      std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    }
  }

  Rows logits() {
    const Rows encoded = stack("encoder", 4, kEncoded, nullptr);
    Rows rows = stack("decoder", 2, kDecoded, &encoded);
    for (Doubles& row : rows) {
      for (double& value : row) value /= std::sqrt(static_cast<double>(kModelWidth));
      row = linear("shared.weight", row);
    }
    return rows;
  }
  /// The experts that each MoE layer's router chose for the tokens.
  const std::vector<std::vector<uint16_t>>& chosen() const { return chosen_; }

 private:
  Doubles linear(const std::string& name, const Doubles& x) const {
    const std::vector<float>& w = values_.at(name);
    Doubles y(w.size() / x.size());
    for (size_t i = 0; i < w.size(); ++i) y[i / x.size()] += static_cast<double>(w[i]) * x[i % x.size()];
    return y;
  }
  Rows linear(const std::string& name, const Rows& rows) const {
    Rows all;
    for (const Doubles& row : rows) all.push_back(linear(name, row));
    return all;
  }
  Rows norm(const std::string& name, const Rows& rows) const {
    Rows all;
    for (const Doubles& row : rows) all.push_back(rms_norm64(row, values_.at(name + ".weight").data(), 1e-6));
    return all;
  }
  static void add(Rows& rows, const Rows& more) {
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t i = 0; i < kModelWidth; ++i) rows[t][i] += more[t][i];
    }
  }

  Rows stack(const std::string& name, int layers, const std::vector<int32_t>& tokens, const Rows* encoded) {
    Rows h;
    for (const int32_t token : tokens)
      h.push_back(doubles(&values_.at("shared.weight")[token * kModelWidth], kModelWidth));
    for (int layer = 0; layer < layers; ++layer) {
      const std::string block = name + ".block." + std::to_string(layer) + ".layer.";
      const Rows x = norm(block + "0.layer_norm", h);
      add(h, attention(block + "0.SelfAttention.", x, x, &name));
      if (encoded != nullptr) {
        const Rows queries = norm(block + "1.layer_norm", h);
        add(h, attention(block + "1.EncDecAttention.", queries, *encoded, nullptr));
      }
      const std::string last = block + (encoded != nullptr ? "2." : "1.");
      add(h, feed_forward(last + "mlp.", norm(last + "layer_norm", h), layer % 2 == 1));
    }
    return norm(name + ".final_layer_norm", h);
  }

  /// T5's bucket of a key that stands `distance` behind the query.
  static int bucket(int distance, bool causal) {
    const int count = causal ? kDistanceBuckets : kDistanceBuckets / 2, exact = count / 2;
    const int first = !causal && distance > 0 ? count : 0;
    const int away = causal ? std::max(-distance, 0) : std::abs(distance);
    if (away < exact) return first + away;
    const double share =
        std::log(away / static_cast<double>(exact)) / std::log(static_cast<double>(kMaxDistance) / exact);
    return first + std::min(count - 1, exact + static_cast<int>(share * (count - exact)));
  }

  /// `stack` names the one whose positions count.
  Rows attention(const std::string& name, const Rows& x, const Rows& context, const std::string* stack) const {
    const Rows q = linear(name + "q.weight", x), k = linear(name + "k.weight", context),
               v = linear(name + "v.weight", context);
    const bool causal = stack != nullptr && *stack == "decoder";
    Rows out(x.size(), Doubles(kModelWidth));
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t head = 0; head < kQueryHeads; ++head) {
        Doubles scores;
        for (size_t key = 0; key < (causal ? t + 1 : context.size()); ++key) {
          double score = 0;
          for (size_t i = head * kHeadColumns; i < (head + 1) * kHeadColumns; ++i) score += q[t][i] * k[key][i];
          if (stack != nullptr) {
            const auto at = static_cast<size_t>(bucket(static_cast<int>(key) - static_cast<int>(t), causal));
            const std::string bias = *stack + ".block.0.layer.0.SelfAttention.relative_attention_bias.weight";
            score += static_cast<double>(values_.at(bias)[at * kQueryHeads + head]);
          }
          scores.push_back(score);
        }
        const Doubles shares = softmax64(scores);
        for (size_t key = 0; key < shares.size(); ++key) {
          for (size_t i = head * kHeadColumns; i < (head + 1) * kHeadColumns; ++i) out[t][i] += shares[key] * v[key][i];
        }
      }
    }
    return linear(name + "o.weight", out);
  }

  Doubles network(const std::string& name, const Doubles& x) const {
    Doubles hidden = linear(name + "wi.weight", x);
    for (double& value : hidden) value = std::max(value, 0.0);
    return linear(name + "wo.weight", hidden);
  }

  Rows feed_forward(const std::string& name, const Rows& rows, bool sparse) {
    if (sparse) chosen_.emplace_back();
    Rows all;
    for (const Doubles& x : rows) {
      if (!sparse) {
        all.push_back(network(name, x));
        continue;
      }
      const Doubles chances = softmax64(linear(name + "router.classifier.weight", x));
      const uint16_t expert = largest(chances, 1)[0];
      chosen_.back().push_back(expert);
      const Doubles routed = network(name + "experts.expert_" + std::to_string(expert) + ".", x);
      const Doubles dense = network(name + "mlp.", x);
      Doubles gates = linear(name + "coefficient.weight", x);
      for (size_t i = 0; i < 2; ++i) gates[i] += static_cast<double>(values_.at(name + "coefficient.bias")[i]);
      gates = softmax64(gates);
      Doubles y(kModelWidth);
      for (size_t i = 0; i < kModelWidth; ++i) y[i] = gates[0] * chances[expert] * routed[i] + gates[1] * dense[i];
      all.push_back(y);
    }
    return all;
  }

  std::map<std::string, std::vector<float>> values_;
  std::vector<std::vector<uint16_t>> chosen_;
};

struct PackedResidual {
  CheckpointDirectory checkpoint{kResidualConfig};
  Tensors tensors = random_checkpoint();
  TempDir pack;

  PackedResidual() {
    checkpoint.write_tensors(tensors);
    write_pack(checkpoint.path(), pack.path());
  }
  Engine open(DeviceKind device, double share) const {
    return Engine(options_for(pack.path(), limits_on(device, {64, 256, 2, 2}), share));
  }
};

/// The encoder's pass, then the decoder's.
std::vector<Run> run_stacks(Engine& engine, const std::vector<Table>& tables = {}, size_t route_ahead = 0,
                            bool whole_layers = false) {
  std::vector<Run> runs;
  for (const size_t stack : {0, 1}) {
    const std::vector<int32_t>& tokens = stack == 0 ? kEncoded : kDecoded;
    const std::vector<int32_t> ids{static_cast<int32_t>(stack)}, parents{stack == 0 ? kNoParent : 0};
    const std::vector<int32_t> offsets{0, static_cast<int32_t>(tokens.size())}, rows = first_numbers(kDecoded.size());
    Batch batch = pass_of(stack, ids, offsets, tokens, parents);
    if (stack == 1) batch.logit_rows = rows;
    if (!tables.empty()) batch.routing = tables[stack].view();
    batch.route_ahead = route_ahead;
    batch.whole_layers = whole_layers;
    runs.push_back(run(engine, batch));
  }
  release(engine, {0, 1});
  return runs;
}

/// Distinct random experts of the layers from `first` on.
Table random_table_of(size_t first, size_t layers, size_t tokens) {
  Table table{{}, {}, 2};
  for (size_t layer = first; layer < first + layers; ++layer) {
    const Table own = random_table(1, tokens, 2, kPyramid[layer], static_cast<uint32_t>(layer));
    table.experts.insert(table.experts.end(), own.experts.begin(), own.experts.end());
    table.alpha.insert(table.alpha.end(), own.alpha.begin(), own.alpha.end());
  }
  return table;
}

TEST_CASE("unequal experts: their ids follow each other, and a pass answers as the reference does") {
  const PackedResidual model;
  ResidualModel reference(model.tensors);
  const ResidualModel::Rows logits = reference.logits();
  for (const DeviceKind device : devices()) {
    CASE(device_name(device));
    Engine engine = model.open(device, 1);
    const ExpertShape& shape = engine.store().layout().shape;
    CHECK(shape.first == std::vector<ExpertId>{0, 2, 10, 14});
    CHECK(engine.plan().experts == 14);
    CHECK(engine.plan().layer_experts == kPyramid);
    const std::vector<Run> runs = run_stacks(engine);
    size_t layer = 0;
    for (const Run& run : runs) {
      const size_t layers = run.found.size() / kWidestLayer, tokens = run.dispatch.size() / layers;
      for (size_t own = 0; own < layers; ++own, ++layer) {
        CHECK(part_of(run.dispatch, own * tokens, tokens) == reference.chosen()[layer]);
        for (size_t i = own * tokens * kWidestLayer; i < (own + 1) * tokens * kWidestLayer; ++i) {
          CHECK(std::isfinite(run.router[i]) == (i % kWidestLayer < kPyramid[layer]));
        }
      }
    }
    Doubles expected;
    for (const Doubles& row : logits) expected.insert(expected.end(), row.begin(), row.end());
    check_near(runs[1].logits, expected, 2e-5);
  }
}

TEST_CASE("unequal experts: the same bits at every budget, with foreseen, predicted and whole layers") {
  const PackedResidual model;
  const std::vector<Table> tables{random_table_of(0, 2, kEncoded.size()), random_table_of(2, 1, kDecoded.size())};
  for (const DeviceKind device : devices()) {
    Engine resident = model.open(device, 1);
    const std::vector<float> exact = run_stacks(resident)[1].logits, predicted = run_stacks(resident, tables)[1].logits;
    CHECK_FALSE(same_bits(exact, predicted));
    for (const double share : {0.5, 0.0}) {
      CASE(device_name(device), share);
      Engine engine = model.open(device, share);
      CHECK(engine.store().slots() < 14);
      CHECK(same_bits(run_stacks(engine)[1].logits, exact));
      CHECK(same_bits(run_stacks(engine, {}, 2)[1].logits, exact));
      CHECK(same_bits(run_stacks(engine, {}, 0, true)[1].logits, exact));
      CHECK(same_bits(run_stacks(engine, tables)[1].logits, predicted));
    }
    std::vector<Table> wrong = tables;
    wrong[0].experts[0] = 2;
    CHECK(error_of([&] { run_stacks(resident, wrong); }, "invalid_request").find("expert 2 of 2") != std::string::npos);
  }
}

}  // namespace
