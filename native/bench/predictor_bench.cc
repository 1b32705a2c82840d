// The predictor of a Switch-base-128 encoder (6 MoE layers of 128 experts) on one thread: prediction of a
// batch of sequences, one decoder step, one training step. The best of the runs: the machine may be shared.
//   predictor_bench [sequences]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string_view>
#include <vector>

#include "ops/cpu/kernels.h"
#include "predictor/predictor.h"
#include "predictor/predictor_trainer.h"

namespace {

using namespace sida;

constexpr size_t kVocab = 8192, kWidth = 768, kLayers = 6, kExperts = 128, kTop = 30, kTrained = 16;

/// Least milliseconds of the runs of half a second, after one warm-up.
double least_ms(const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  body();
  double least = 1e30;
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    body();
    least = std::min(least, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  } while (Clock::now() - start < std::chrono::milliseconds(500));
  return least;
}

struct Input {
  std::vector<int32_t> tokens, offsets{0};
  std::vector<uint16_t> experts;
  std::vector<float> alpha;

  Input(size_t sequences, size_t length) {
    for (size_t i = 0; i < sequences * length; ++i) tokens.push_back(static_cast<int32_t>(i * 2654435761u % kVocab));
    for (size_t s = 0; s < sequences; ++s) offsets.push_back(offsets.back() + static_cast<int32_t>(length));
    experts.resize(kLayers * tokens.size());
    alpha.resize(experts.size());
  }
  TokenInput view() const { return {tokens, offsets, {}, {}}; }
  ExpertTable table() { return {1, experts.data(), alpha.data(), nullptr}; }
};

double predict_ms(Predictor* predictor, size_t sequences, size_t length) {
  Input input(sequences, length);
  return least_ms([&] { predictor->predict(input.view(), input.table()); });
}

double step_ms(Predictor* predictor, size_t sequences) {
  Input input(1, sequences);
  std::vector<int32_t> ids(sequences);
  std::iota(ids.begin(), ids.end(), 0);
  predictor->begin(ids, {}, {});
  const double ms = least_ms([&] {
    for (int i = 0; i < 16; ++i) predictor->step(ids, input.tokens, input.table());
    predictor->end(ids);
    predictor->begin(ids, {}, {});
  });
  predictor->end(ids);
  return ms / 16;
}

double train_ms(const PredictorWeights& weights, const TokenEmbedding& embedding) {
  constexpr size_t kLength = 36;
  Input input(kTrained, kLength);
  const size_t rows = input.tokens.size();
  std::vector<uint16_t> experts(kLayers * rows * kTop);
  std::vector<float> logits(experts.size());
  for (size_t i = 0; i < experts.size(); ++i) {
    experts[i] = static_cast<uint16_t>((i / kTop + i % kTop) % kExperts);
    logits[i] = -0.1f * static_cast<float>(i % kTop);
  }
  PredictorTrainer trainer(weights, {});
  EmbeddedBatch batch;
  const SequenceBatch sequences = batch.assign(input.view(), embedding, false);
  return least_ms([&] { trainer.step(sequences, {experts.data(), logits.data(), rows, kTop}, 1e-4f); });
}

TokenEmbedding made_up_embedding() {
  TokenEmbedding embedding(kVocab, kWidth);
  float* values = embedding.row(0);
  for (size_t i = 0; i < kVocab * kWidth; ++i) {
    values[i] = static_cast<float>(static_cast<int32_t>(i * 2654435761u)) * 0x1p-31f;
  }
  return embedding;
}

}  // namespace

int main(int argc, char** argv) {
  const size_t sequences = argc > 1 ? static_cast<size_t>(std::max(1, std::atoi(argv[1]))) : 1;
  const TokenEmbedding embedding = made_up_embedding();
  std::printf("isa %s, 1 thread, %zu sequence(s); step: %zu sequence(s); train: %zu sequences of 36\n",
              cpu_kernels().isa, sequences, sequences, kTrained);
  std::printf("%-16s %6s %9s %9s %9s %9s %9s %9s\n", "network", "h", "open ms", "16 ms", "36 ms", "64 ms", "step ms",
              "train ms");
  for (const size_t h : {64, 128, 192, 256}) {
    for (const char* name :
         {"lstm", "lstm causal", "one layer", "softmax", "bidirectional", "attention", "attention causal"}) {
      const std::string_view kind = name;
      const bool causal = kind.ends_with("causal");
      PredictorWeights weights(
          {.d_in = kWidth,
           .hidden = h,
           .layers = kLayers,
           .experts = kExperts,
           .causal = causal,
           .bidirectional = kind == "bidirectional",
           .blocks = kind.starts_with("attention") ? size_t{2} : size_t{0},
           .lstm_layers = kind == "one layer" ? size_t{1} : size_t{2},
           .attention_weights = kind == "softmax" ? WeightFunction::kSoftmax : WeightFunction::kSparsemax});
      weights.initialize(1);
      const auto start = std::chrono::steady_clock::now();
      Predictor predictor(weights, embedding, 1);
      const std::chrono::duration<double, std::milli> open = std::chrono::steady_clock::now() - start;
      std::printf("%-16s %6zu %9.1f", name, h, open.count());
      for (const size_t length : {16, 36, 64}) std::printf(" %9.3f", predict_ms(&predictor, sequences, length));
      causal ? std::printf(" %9.3f", step_ms(&predictor, sequences)) : std::printf(" %9s", "-");
      std::printf(" %9.1f\n", train_ms(weights, embedding));
    }
  }
}
