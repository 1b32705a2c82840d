#include "predictor/predictor.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/profile.h"
#include "ops/predicted_routing.h"

namespace sida {
namespace {

[[noreturn]] void refuse_unknown(int32_t id) {
  throw Error("invalid_request", "the predictor has no sequence " + std::to_string(id));
}

[[noreturn]] void refuse_live(int32_t id) {
  throw Error("invalid_request", "sequence " + std::to_string(id) + " of the predictor exists already");
}

// Sequences of one pass, at most: enough that the recurrent weights are read once for many rows.
constexpr size_t kChunkSequences = 16;
// Tokens of one pass, which has at least one sequence: limits the scratch space of a large batch.
constexpr size_t kChunkTokens = 1024;
constexpr float kMaxSharpness = 1e4f;

PredictorStepper* stepper_or_refuse(const std::unique_ptr<PredictorStepper>& stepper) {
  if (stepper) return stepper.get();
  throw Error("invalid_request",
              "Expected a causal predictor to step through a sequence, found one that sees the whole input");
}

void check_sharpness(const std::string& name, std::span<const float> sharpness, size_t layers) {
  if (!sharpness.empty() && sharpness.size() != layers) {
    throw Error("checkpoint_invalid",
                "the " + name + " sharpness has " + std::to_string(sharpness.size()) + " values, the predictor " +
                    std::to_string(layers) + " layers",
                {{"expected", static_cast<double>(layers)}, {"found", static_cast<double>(sharpness.size())}});
  }
  for (const float value : sharpness) {
    if (value > 0 && value <= kMaxSharpness) continue;
    throw Error("checkpoint_invalid",
                "the " + name + " sharpness of a layer is " + std::to_string(value) +
                    ", expected more than 0 and at most " + std::to_string(kMaxSharpness),
                {{"found", static_cast<double>(value)}});
  }
}

/// What a predictor for another model would rank beyond its own outputs is left out; its shape says so to the caller.
std::vector<size_t> experts_of_layers(std::span<const uint16_t> layer_experts, const PredictorConfig& config) {
  std::vector<size_t> known(config.layers, config.experts);
  for (size_t layer = 0; layer < std::min(known.size(), layer_experts.size()); ++layer) {
    known[layer] = std::clamp<size_t>(layer_experts[layer], 1, config.experts);
  }
  return known;
}

std::vector<ExpertSharpness> of_each_layer(const PredictorSharpness& sharpness, size_t layers) {
  check_sharpness("alpha", sharpness.alpha, layers);
  check_sharpness("chance", sharpness.chance, layers);
  std::vector<ExpertSharpness> each(layers);
  for (size_t l = 0; l < sharpness.alpha.size(); ++l) each[l].alpha = sharpness.alpha[l];
  for (size_t l = 0; l < sharpness.chance.size(); ++l) each[l].chance = sharpness.chance[l];
  return each;
}

}  // namespace

// A range of sequences.
struct Predictor::Chunk {
  size_t first = 0;  // sequence
  size_t sequences = 0;
  bool finite = false;
  std::exception_ptr error;
};

Predictor::Predictor(const PredictorWeights& weights, std::shared_ptr<const TokenEmbedding> embedding, size_t threads,
                     const PredictorSharpness& sharpness, std::span<const uint16_t> layer_experts,
                     std::unique_ptr<DeviceNetwork> device)
    : embedding_(std::move(embedding)),
      sharpness_(of_each_layer(sharpness, weights.layout.config().layers)),
      layer_experts_(experts_of_layers(layer_experts, weights.layout.config())),
      choices_(static_cast<float>(sharpness.choices)),
      network_(weights.layout.config(), NetworkUse::kTokens),
      device_(std::move(device)),
      products_(config().hidden),
      summary_products_(config().hidden),
      pool_(std::max(threads, size_t{1})),
      activations_(pool_.threads()) {
  if (embedding_->d_model() != config().d_in) {
    throw Error(
        "checkpoint_invalid",
        "the predictor takes token embeddings of width " + std::to_string(config().d_in) + ", the model's have " +
            std::to_string(embedding_->d_model()) + "; is it another model's predictor?",
        {{"expected", static_cast<double>(config().d_in)}, {"found", static_cast<double>(embedding_->d_model())}});
  }
  network_.load(weights.values.data(), &pool_);
  if (config().causal) stepper_ = std::make_unique<PredictorStepper>(network_);
}

Predictor::~Predictor() = default;

void Predictor::add_products(std::span<const int32_t> tokens) {
  products_.add(
      tokens, *embedding_, [&](const float* x, size_t rows, float* out) { network_.compress(x, rows, out); }, &pool_);
}

void Predictor::add_summary_products(std::span<const int32_t> tokens) {
  summary_products_.add(
      tokens, *embedding_, [&](const float* x, size_t rows, float* out) { network_.summary_products(x, rows, out); },
      &pool_);
}

void Predictor::mean_summary_product(std::span<const int32_t> context, float* out) const {
  mean_of_rows(
      context, config().hidden, [&](int32_t token) { return summary_products_.of(token); }, out);
}

size_t Predictor::bytes() const {
  size_t bytes = network_.bytes() + products_.bytes() + summary_products_.bytes() +
                 (step_products_.capacity() + step_logits_.capacity()) * sizeof(float);
  for (const PredictorActivations& activations : activations_) bytes += activations.bytes();
  for (const auto& [id, state] : states_) bytes += sizeof(state) + state.bytes();
  return bytes;
}

void Predictor::split(const TokenInput& input) {
  chunks_.clear();
  size_t tokens = 0;
  const size_t share = (input.sequences() + pool_.threads() - 1) / pool_.threads();
  const size_t most = device_ != nullptr ? kChunkSequences : std::clamp<size_t>(share, 1, kChunkSequences);
  for (size_t s = 0; s < input.sequences(); ++s) {
    const size_t length = input.length(s);
    if (chunks_.empty() || chunks_.back().sequences == most || tokens + length > kChunkTokens) {
      chunks_.emplace_back().first = s;
      tokens = 0;
    }
    ++chunks_.back().sequences;
    tokens += length;
  }
}

bool Predictor::rank(const float* head_rows, size_t rows, const ExpertTable& table, size_t tokens, size_t first) const {
  const size_t experts = config().experts;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t l = 0; l < config().layers; ++l) {
      const float* logits = head_rows + (r * config().layers + l) * experts;
      const size_t at = l * tokens + first + r;
      if (table.logits != nullptr) std::copy_n(logits, experts, table.logits + at * experts);
      uint16_t* ids = table.experts + at * table.k;
      float* alpha = table.alpha + at * table.k;
      float* chance = table.chance == nullptr ? nullptr : table.chance + at * table.k;
      const size_t known = std::min(table.k, layer_experts_[l]);
      if (!rank_experts(logits, layer_experts_[l], known, sharpness_[l], ids, alpha, chance)) return false;
      std::fill(ids + known, ids + table.k, kNoExpert);
      std::fill(alpha + known, alpha + table.k, 0.0f);
      if (chance == nullptr) continue;
      std::fill(chance + known, chance + table.k, 0.0f);
      for (size_t i = 0; i < known; ++i) chance[i] = std::min(chance[i] * choices_, 1.0f);
    }
  }
  return true;
}

bool Predictor::run_chunk(const TokenInput& input, const ExpertTable& table, const Chunk& chunk,
                          PredictorActivations* act) const {
  const size_t h = config().hidden;
  const auto begin = static_cast<size_t>(input.offsets[chunk.first]);
  const size_t rows = static_cast<size_t>(input.offsets[chunk.first + chunk.sequences]) - begin;
  float* compressed = grow(&act->compressed, rows * h);
  for (size_t r = 0; r < rows; ++r) {
    std::copy_n(products_.of(input.tokens[begin + r]), h, compressed + r * h);
  }
  uint32_t lengths[kChunkSequences];
  for (size_t i = 0; i < chunk.sequences; ++i) {
    lengths[i] = static_cast<uint32_t>(input.length(chunk.first + i));
    if (!config().summary) continue;
    mean_summary_product(input.context(chunk.first + i), grow(&act->summaries, kChunkSequences * h) + i * h);
  }
  const std::span<const uint32_t> sequences(lengths, chunk.sequences);
  if (device_ != nullptr && rows <= DeviceNetwork::kMostRows) {
    network_.finish_compress(sequences, config().summary, act);
    bool finite = true;
    device_->forward(sequences, compressed, [&](size_t first, size_t count, const float* logits) {
      finite = rank(logits, count, table, input.tokens.size(), begin + first) && finite;
    });
    return finite;
  }
  network_.forward_products(sequences, config().summary, act);
  return rank(act->head_rows.data(), rows, table, input.tokens.size(), begin);
}

bool Predictor::predict(const TokenInput& input, const ExpertTable& table) {
  const ProfileScope scope(ProfileOp::kPredict, {.tokens = static_cast<int32_t>(input.tokens.size())});
  input.check(embedding_->vocab(), config().summary);
  add_products(input.tokens);
  if (config().summary) add_summary_products(input.context_tokens);
  split(input);
  pool_.parallel_for(chunks_.size(), [&](size_t task, size_t thread) {
    Chunk& chunk = chunks_[task];
    try {
      chunk.finite = run_chunk(input, table, chunk, &activations_[thread]);
    } catch (...) {
      chunk.error = std::current_exception();
    }
  });
  bool finite = true;
  for (Chunk& chunk : chunks_) {
    if (chunk.error) std::rethrow_exception(std::exchange(chunk.error, nullptr));
    finite = finite && chunk.finite;
  }
  return finite;
}

void Predictor::begin(std::span<const int32_t> ids, std::span<const int32_t> context_tokens,
                      std::span<const int32_t> context_offsets) {
  PredictorStepper* stepper = stepper_or_refuse(stepper_);
  const TokenInput input{{}, {}, context_tokens, context_offsets};
  if (config().summary || !context_offsets.empty()) {
    check_offsets("contextOffsets", context_offsets, ids.size(), context_tokens.size());
    check_tokens("contextTokens", context_tokens, embedding_->vocab());
    config().summary ? add_summary_products(context_tokens) : add_products(context_tokens);
  }
  size_t begun = 0;
  try {
    AlignedFloats product(config().hidden);
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto [state, fresh] = states_.try_emplace(ids[i]);
      if (!fresh) refuse_live(ids[i]);
      ++begun;
      if (config().summary) {
        mean_summary_product(input.context(i), product.data());
      }
      stepper->begin(&state->second, config().summary ? product.data() : nullptr);
      if (config().summary || context_offsets.empty()) continue;
      PredictorState* const own = &state->second;
      for (const int32_t token : input.context(i)) {
        std::copy_n(products_.of(token), product.size(), product.data());
        stepper->step({&own, 1}, product.data(), nullptr);
      }
    }
  } catch (...) {
    end(ids.first(begun));
    throw;
  }
}

void Predictor::fork(std::span<const int32_t> from, std::span<const int32_t> ids) {
  if (from.size() != ids.size()) {
    throw Error("invalid_request", std::to_string(from.size()) + " sequences to copy for " + std::to_string(ids.size()),
                {{"expected", static_cast<double>(ids.size())}, {"found", static_cast<double>(from.size())}});
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto original = states_.find(from[i]);
    if (original == states_.end()) refuse_unknown(from[i]);
    PredictorState copy = original->second;
    if (!states_.try_emplace(ids[i], std::move(copy)).second) refuse_live(ids[i]);
  }
}

bool Predictor::step(std::span<const int32_t> ids, std::span<const int32_t> tokens, const ExpertTable& table) {
  const ProfileScope scope(ProfileOp::kPredictStep, {.tokens = static_cast<int32_t>(tokens.size())});
  PredictorStepper* stepper = stepper_or_refuse(stepper_);
  if (tokens.size() != ids.size()) {
    throw Error("invalid_request",
                std::to_string(tokens.size()) + " tokens for " + std::to_string(ids.size()) + " sequences",
                {{"expected", static_cast<double>(ids.size())}, {"found", static_cast<double>(tokens.size())}});
  }
  check_tokens("tokens", tokens, embedding_->vocab());
  std::vector<PredictorState*> states;
  for (const int32_t id : ids) {
    const auto found = states_.find(id);
    if (found == states_.end()) refuse_unknown(id);
    states.push_back(&found->second);
  }
  std::vector<PredictorState*> sorted = states;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw Error("invalid_request", "a step of the predictor names a sequence twice");
  }
  add_products(tokens);
  const size_t h = config().hidden;
  float* products = grow(&step_products_, ids.size() * h);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::copy_n(products_.of(tokens[i]), h, products + i * h);
  }
  float* logits = grow(&step_logits_, ids.size() * config().layers * config().experts);
  stepper->step(states, products, logits);
  return rank(logits, ids.size(), table, ids.size(), 0);
}

void Predictor::end(std::span<const int32_t> ids) {
  for (const int32_t id : ids) states_.erase(id);
}

}  // namespace sida
