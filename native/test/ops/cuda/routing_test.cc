// The routing kernels against choose_experts() and axpy of the CPU; ../choose_experts_test.cc has all routers.
#ifdef SIDA_WITH_CUDA

#include "ops/cuda/routing.h"

#include "engine/devices.h"
#include "ops/cpu/choose_experts.h"
#include "support/device_copy.h"
#include "support/kernel_sets.h"

namespace {

TEST_SUITE_BEGIN("cuda" * needs_cuda_device());

// Two exponentials below 2 ulp each, and sums of up to 300 of them in other orders.
constexpr float kAlphaTolerance = 2e-6f;

struct Choices {
  std::vector<uint16_t> expert;
  std::vector<float> alpha;
};

Choices device_choices(const std::vector<float>& logits, size_t experts, const RouterSpec& spec,
                       const std::vector<float>& correction = {}) {
  const size_t tokens = logits.size() / experts, choices = tokens * spec.top_k;
  const DeviceCopy<float> from(logits), alpha(std::vector<float>(choices, -1));
  const DeviceCopy<float> added(correction);
  const DeviceCopy<uint16_t> expert(std::vector<uint16_t>(choices, 0xabcd));
  cuda::choose(from.data(), tokens, experts, {spec, correction.empty() ? nullptr : added.data()}, expert.data(),
               alpha.data(), nullptr);
  return {expert.read(), alpha.read()};
}

Choices cpu_choices(std::vector<float> logits, size_t experts, const RouterSpec& spec,
                    const std::vector<float>& correction = {}) {
  const size_t tokens = logits.size() / experts;
  std::vector<float> scratch(experts);
  Choices out{std::vector<uint16_t>(tokens * spec.top_k), std::vector<float>(tokens * spec.top_k)};
  for (size_t token = 0; token < tokens; ++token) {
    float* row = &logits[token * experts];
    choose_experts({row, experts, correction.empty() ? nullptr : correction.data(), scratch.data()}, spec,
                   &out.expert[token * spec.top_k], &out.alpha[token * spec.top_k]);
  }
  return out;
}

void check_alike(const std::vector<float>& logits, size_t experts, const RouterSpec& spec = {},
                 const std::vector<float>& correction = {}) {
  CASE(experts, spec.top_k, spec.scores, spec.normalized, spec.groups.count, spec.groups.kept, spec.groups.best);
  const Choices expected = cpu_choices(logits, experts, spec, correction);
  const Choices found = device_choices(logits, experts, spec, correction);
  CHECK(found.expert == expected.expert);
  for (size_t choice = 0; choice < expected.alpha.size(); ++choice) {
    CASE(choice);
    const float wanted = expected.alpha[choice];
    if (std::isnan(wanted)) {
      CHECK(std::isnan(found.alpha[choice]));
    } else {
      // Only a softmax over all experts has other sums.
      const float tolerance = spec.scores == RouterScores::kSoftmax ? kAlphaTolerance * wanted : 0;
      CHECK(std::fabs(found.alpha[choice] - wanted) <= tolerance);
    }
  }
}

TEST_CASE("cuda routing: the first of equal probabilities is chosen, logits of a hair's difference among them") {
  for (const size_t experts : {8, 128, 300}) {
    for (const auto& [first, hair] : grid(Sizes{0, 3, experts / 2}, std::vector<float>{0.0f, 1e-9f})) {
      // A difference of 1e-9 is none to exp(), or on a GPU, whose exp() is off by 2 ulp, may be one.
      std::vector<float> logits(experts, -1.0f);
      logits[first] = 0;
      logits[experts - 1] = logits[experts - 2] = hair;
      const size_t chosen = device_choices(logits, experts, {}).expert[0];
      if (hair != 0 && chosen != first) {
        CHECK(!cuda_state().emulated);
        CHECK(chosen == experts - 2);
        continue;
      }
      CHECK(chosen == first);
      check_alike(logits, experts);
      if (hair == 0) check_alike(logits, experts, {.top_k = 5, .normalized = true});
    }
  }
}

TEST_CASE("cuda routing: NaN logits give the choices of the CPU") {
  for (const auto& [experts, top_k] : grid(Sizes{8, 128, 300}, Sizes{1, 3})) {
    const RouterSpec spec{.top_k = top_k, .normalized = false};
    for (const auto& [place, value] : grid(Sizes{0, 5, experts - 1}, std::vector{NAN, -NAN, kInfinity, -kInfinity})) {
      auto logits = random_floats(experts, 5);
      logits[place] = value;
      check_alike(logits, experts, spec);
      if (value == -kInfinity) continue;
      const Choices found = device_choices(logits, experts, spec);
      for (size_t i = 0; i < top_k; ++i) CHECK((found.expert[i] == i && std::isnan(found.alpha[i])));
    }
    for (const float all : {-kInfinity, NAN, -3e38f}) check_alike(std::vector<float>(experts, all), experts, spec);
  }
}

TEST_CASE("cuda routing: sigmoids, corrections and groups give the CPU's choices, equal and broken scores among them") {
  using enum RouterScores;
  std::mt19937 random(7);
  const auto below = [&](size_t count) { return random() % count; };
  for (int round = 0; round < 200; ++round) {
    const size_t experts = Sizes{8, 32, 40, 160, 256, 320}[below(6)];
    RouterSpec spec{.top_k = Sizes{1, 3, 8}[below(3)],
                    .scores = std::vector{kSoftmax, kSigmoid, kSoftmaxOfChosen}[below(3)]};
    // The bits of a softmax over all experts differ, and sums of such scores may choose otherwise.
    const bool softmax = spec.scores == kSoftmax;
    spec.corrected = !softmax && below(2) == 0;
    spec.normalized = below(2) == 0;
    spec.sum_floor = below(2) == 0 ? 0 : 1e-3f;
    spec.scale = below(2) == 0 ? 1 : 2.5;
    if (below(4) > 0) spec.groups = {Sizes{2, 4, 8}[below(3)], 0, 0};
    spec.groups.kept = 1 + below(spec.groups.count);
    spec.groups.best = 1 + below(std::min<size_t>(softmax ? 1 : 3, experts / spec.groups.count));
    const bool coarse = below(2) == 0;
    const auto some = [&](size_t count) {
      auto numbers = random_floats(count, static_cast<uint32_t>(random()));
      for (float& number : numbers) number = coarse ? std::round(4 * number) / 4 : 6 * number;
      return numbers;
    };
    const auto correction = spec.corrected ? some(experts) : std::vector<float>{};
    auto logits = some(6 * experts);
    const float odd[] = {NAN, kInfinity, -kInfinity, 3e38f, -3e38f};
    for (size_t row = 3; row < 6; ++row) logits[row * experts + below(experts)] = odd[below(5)];
    std::fill_n(logits.begin(), experts, logits[0]);
    check_alike(logits, experts, spec, correction);
  }
}

TEST_CASE("cuda routing: add_expert_outputs gives the bits of axpy in the order of a token's choices") {
  constexpr size_t tokens = 9, outputs = 20;
  for (const auto& [d, k] : grid(Sizes{1, 7, 16, 130, 768}, Sizes{1, 2, 8})) {
    CASE(d, k);
    const auto y = random_floats(outputs * d, 6), alpha = random_floats(tokens * k, 7);
    const auto before = random_floats(tokens * d, 8);
    std::vector<uint32_t> positions(tokens * k);
    auto expected = before;
    for (size_t token = 0; token < tokens; ++token) {
      for (size_t j = 0; j < k; ++j) {
        uint32_t& position = positions[token * k + j];
        position = static_cast<uint32_t>((token * 7 + j * 11) % outputs);
        // Token 2 has none, token 4 one less; what follows the end counts no more.
        if ((token == 2 && j == 0) || (token == 4 && j == k - 1)) position = cuda::kNoPosition;
      }
      for (size_t j = 0; j < k && positions[token * k + j] != cuda::kNoPosition; ++j) {
        cpu_kernels_named("scalar")->axpy(alpha[token * k + j], &y[positions[token * k + j] * d], d,
                                          &expected[token * d]);
      }
    }
    const DeviceCopy<float> from(y), scales(alpha), hidden(before);
    const DeviceCopy<uint32_t> places(positions);
    cuda::add_expert_outputs(from.data(), places.data(), scales.data(), tokens, k, d, hidden.data(), nullptr);
    CHECK(same_bits(hidden.read(), expected));
  }
}

TEST_SUITE_END();

}  // namespace
#endif
