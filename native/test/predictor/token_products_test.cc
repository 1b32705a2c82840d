#include "predictor/token_products.h"

#include "predictor/predictor.h"
#include "support/checkpoint_directory.h"
#include "support/pack_files.h"
#include "support/predictor_reference.h"

namespace {

constexpr size_t kProductTokens = 300;
constexpr size_t kProductWidth = 24;
constexpr size_t kProductInputs = 20;

TEST_CASE("token products: the same bits, whatever tokens are added before and beside a token") {
  const TokenEmbedding embedding(kProductTokens, kProductInputs, [] {
    const std::vector<float> values = floats(random_doubles(kProductTokens * kProductInputs, 1, 21));
    return AlignedFloats(values.begin(), values.end());
  }());
  AlignedFloats panels;
  const PanelMatrix weights = pack_transposed(floats(random_doubles(kProductWidth * kProductInputs, 1, 22)).data(),
                                              kProductWidth, kProductInputs, &panels);
  const auto product = [&](const float* x, size_t rows, float* out) {
    multiply(x, kProductInputs, rows, weights, out, kProductWidth, Epilogue::kStore);
  };
  std::vector<int32_t> tokens(kProductTokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  ThreadPool one(1), three(3);
  TokenProducts together(kProductWidth);
  together.add(tokens, embedding, product, &one);
  for (const size_t most : {1, 2, 3, 7, 8, 9, 64}) {
    std::mt19937_64 random(most);
    std::shuffle(tokens.begin(), tokens.end(), random);
    TokenProducts parts(kProductWidth);
    for (size_t at = 0; at < tokens.size();) {
      const size_t count = std::min<size_t>(1 + random() % most, tokens.size() - at);
      // Known tokens and a token twice, too.
      std::vector<int32_t> some(tokens.begin() + static_cast<ptrdiff_t>(at / 2),
                                tokens.begin() + static_cast<ptrdiff_t>(at + count));
      some.push_back(some.front());
      parts.add(some, embedding, product, most % 2 == 0 ? &one : &three);
      at += count;
    }
    CHECK(parts.bytes() >= kProductTokens * kProductWidth * sizeof(float));
    for (const int32_t token : tokens) {
      CASE(most, token);
      REQUIRE(std::memcmp(parts.of(token), together.of(token), kProductWidth * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("token embedding: a pack's rows in any order are the checkpoint's, and the same together as one by one") {
  const TokenEmbedding checkpoint = TokenEmbedding::from_checkpoint(small_checkpoint());
  const size_t vocab = checkpoint.vocab(), width = checkpoint.d_model();
  std::vector<float> expected(vocab * width), all(vocab * width), row(width);
  checkpoint.read(0, vocab, expected.data());
  for (const WeightFormat& format : {kF32Format, kBf16Format, kInt8Format, kQ8_0Format}) {
    CASE(format);
    TempDir pack;
    write_pack(small_checkpoint(), pack.path(), kF32Format, format);
    const TokenEmbedding embedding = TokenEmbedding::from_pack(pack.path());
    embedding.read(0, vocab, all.data());
    if (format == kF32Format) CHECK(all == expected);
    CHECK(relative_error(all, expected) < 0.1);
    for (size_t i = 0; i < vocab; ++i) {
      const size_t token = i * 37 % vocab;
      embedding.read(token, 1, row.data());
      REQUIRE(std::equal(row.begin(), row.end(), all.begin() + static_cast<ptrdiff_t>(token * width)));
    }
    std::fill(all.begin(), all.end(), 0.0f);
    embedding.read(30, vocab - 35, all.data());
    embedding.read(30 + vocab - 36, 1, row.data());
    CHECK(std::equal(row.begin(), row.end(), all.begin() + static_cast<ptrdiff_t>((vocab - 36) * width)));
  }
}

TEST_CASE("predictor: a pack that is cut while it is open fails for new tokens, and known ones stay") {
  TempDir pack;
  write_pack(small_checkpoint(), pack.path());
  const std::string dense = pack.path() + "/" + kDenseFile;
  const auto embedding = std::make_shared<const TokenEmbedding>(TokenEmbedding::from_pack(pack.path()));
  for (const size_t threads : {1, 3}) {
    PredictorWeights weights({.d_in = embedding->d_model(), .hidden = 16, .layers = 2, .experts = 4, .causal = true});
    weights.initialize(9);
    Predictor predictor(weights, embedding, threads);
    std::vector<uint16_t> experts(2 * 4);
    std::vector<float> alpha(2 * 4);
    const auto predict = [&](std::vector<int32_t> tokens) {
      const std::vector<int32_t> offsets = {0, static_cast<int32_t>(tokens.size())};
      const ExpertTable table{1, experts.data(), alpha.data()};
      const bool finite = predictor.predict({tokens, offsets, {}, {}}, table);
      REQUIRE(finite);
      return alpha;
    };
    const std::vector<int32_t> one = {1}, two = {2}, known = {3}, unknown = {50}, ends = {0, 1};
    const auto step = [&](const std::vector<int32_t>& id, const std::vector<int32_t>& tokens) {
      const bool finite = predictor.step(id, tokens, {1, experts.data(), alpha.data()});
      REQUIRE(finite);
    };
    const std::vector<float> whole = predict({3, 4});
    predictor.begin(one, known, ends);
    std::filesystem::copy_file(dense, dense + ".whole");
    std::filesystem::resize_file(dense, 0);
    check_error([&] { predict({3, 50, 4}); }, {dense, "ends early"}, "io_error");
    check_error([&] { predictor.begin(two, unknown, ends); }, {dense}, "io_error");
    check_error([&] { step(one, unknown); }, {dense}, "io_error");
    CHECK(predict({3, 4}) == whole);
    check_error([&] { TokenEmbedding::from_pack(pack.path()); }, {dense}, "io_error");

    // Neither call has changed a sequence, or remembers the failure.
    write_file(dense, read_text_file(dense + ".whole"));
    std::filesystem::remove(dense + ".whole");
    step(one, unknown);
    const std::vector<float> stepped = {alpha[0], alpha[1]};
    const std::vector<float> table = predict({3, 50});
    CHECK(stepped == std::vector<float>{table[1], table[3]});
    predictor.begin(two, unknown, ends);
  }
}

}  // namespace
