// Rotary frequencies against the formulas of transformers' modeling_rope_utils, computed here in float64.
#include <numbers>

#include "support/family_config.h"

namespace {

/// Rope of a Mixtral model with heads of 64 columns and 8192 positions.
Rope rope_with(const std::string& fields) {
  return rope_of(parse_family("mixtral", R"("head_dim":64,"max_position_embeddings":8192,)" + fields));
}

std::vector<double> plain(size_t width, double theta) {
  std::vector<double> inverse;
  for (size_t j = 0; 2 * j < width; ++j) {
    inverse.push_back(std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(width)));
  }
  return inverse;
}

struct Yarn {
  double factor, original, fast = 32, slow = 1;
  bool truncate = true;
};

std::vector<double> yarn(size_t width, double theta, const Yarn& with) {
  const auto d = static_cast<double>(width);
  const auto find = [&](double rotations) {
    return d * std::log(with.original / (2 * std::numbers::pi * rotations)) / (2 * std::log(theta));
  };
  const double first = find(with.fast), last = find(with.slow);
  const double low = std::max(with.truncate ? std::floor(first) : first, 0.0);
  const double high = std::min(with.truncate ? std::ceil(last) : last, d - 1);
  std::vector<double> inverse = plain(width, theta);
  for (size_t j = 0; j < inverse.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    inverse[j] *= ramp / with.factor + (1 - ramp);
  }
  return inverse;
}

std::vector<double> llama3(size_t width, double theta, double factor, double low, double high, double original) {
  std::vector<double> inverse = plain(width, theta);
  for (double& one : inverse) {
    const double length = 2 * std::numbers::pi / one;
    if (length < original / high) continue;
    const double smooth = length > original / low ? 0 : (original / length - low) / (high - low);
    one = (1 - smooth) * one / factor + smooth * one;
  }
  return inverse;
}

/// The largest relative difference. Exponents are rounded to float32, as transformers does: up to 7e-7 at theta 1e6.
double difference(const Rope& rope, const std::vector<double>& expected) {
  REQUIRE(rope.inverse_frequencies.size() == expected.size());
  double worst = 0;
  for (size_t j = 0; j < expected.size(); ++j) {
    worst = std::max(worst, std::abs(static_cast<double>(rope.inverse_frequencies[j]) / expected[j] - 1));
  }
  return worst;
}

constexpr double kRounding = 2e-6;

void check_rope(const Rope& rope, const std::vector<double>& expected) {
  CHECK(difference(rope, expected) < kRounding);
}

double magnitude(double factor, double scale = 1) { return 0.1 * scale * std::log(factor) + 1; }

TEST_CASE("rope: frequencies follow from theta, under each of its fields") {
  const std::string heads = R"("hidden_size":64,"num_attention_heads":8,)";
  const auto found = [&](const std::string& fields) {
    return rope_of(parse_family("olmoe", heads + fields)).inverse_frequencies;
  };
  // 1.0 / (10000.0 ** (torch.arange(0, 8, 2, dtype=torch.int64).float() / 8))
  CHECK(found(R"("rope_theta":10000)") == std::vector<float>{1.0f, 0.1f, 0.01f, 0.001f});
  const std::vector<float> other = found(R"("rope_theta":500000)");
  CHECK(std::abs(other[1] * std::pow(500000.0, 0.25) - 1) < 1e-7);
  for (const char* fields :
       {R"("rope_parameters":{"rope_theta":500000.0,"rope_type":"default"})",
        R"("rope_theta":10000.0,"rope_parameters":{"rope_theta":500000})", R"("rope_theta":500000,"rope_scaling":null)",
        R"("rope_theta":500000,"rope_scaling":{"type":"default"})",
        R"("rope_theta":500000,"rope_parameters":{"rope_type":"default"})"}) {
    CASE(fields);
    CHECK(found(fields) == other);
  }
}

TEST_CASE("rope: linear frequencies are divided by the factor") {
  const Rope rope = rope_with(R"("rope_theta":10000,"rope_scaling":{"type":"linear","factor":4})");
  std::vector<double> expected = plain(64, 1e4);
  for (double& one : expected) one /= 4;
  check_rope(rope, expected);
  CHECK(rope.magnitude == 1);
}

TEST_CASE("rope: llama3 keeps short wavelengths, divides long ones and blends those between") {
  const Rope rope =
      rope_with(R"("rope_parameters":{"rope_type":"llama3","rope_theta":500000,"factor":8,"low_freq_factor":1,)"
                R"("high_freq_factor":4,"original_max_position_embeddings":1024})");
  const std::vector<double> expected = llama3(64, 5e5, 8, 1, 4, 1024), whole = plain(64, 5e5);
  check_rope(rope, expected);
  CHECK(rope.magnitude == 1);
  CHECK(expected.front() == whole.front());
  CHECK(expected.back() == whole.back() / 8);
  size_t blended = 0;
  for (size_t j = 0; j < expected.size(); ++j) {
    const double kept = expected[j] / whole[j];
    blended += kept > 0.126 && kept < 0.999;
  }
  CHECK(blended > 1);
}

TEST_CASE("rope: yarn ramps between its bounds, which truncate rounds outwards") {
  const std::string scaling = R"("rope_theta":150000,"rope_scaling":{"rope_type":"yarn","factor":32.0,)"
                              R"("original_max_position_embeddings":4096)";
  const std::vector<double> rounded = yarn(64, 150000, {32, 4096});
  const std::vector<double> exact = yarn(64, 150000, {32, 4096, 32, 1, false});
  check_rope(rope_with(scaling + "}"), rounded);
  check_rope(rope_with(scaling + R"(,"truncate":true})"), rounded);
  const Rope rope = rope_with(scaling + R"(,"truncate":false})");
  check_rope(rope, exact);
  CHECK(difference(rope, rounded) > 0.01);
  CHECK(rope.magnitude == static_cast<float>(magnitude(32)));
  check_rope(rope_with(scaling + R"(,"beta_fast":8,"beta_slow":2})"), yarn(64, 150000, {32, 4096, 8, 2}));
  // A ramp of no length, one that begins below the first pair, and one that ends behind the last.
  check_rope(rope_with(R"("rope_theta":10000,"rope_scaling":{"type":"yarn","factor":4,"truncate":false,)"
                       R"("beta_fast":4,"beta_slow":2,"original_max_position_embeddings":8})"),
             plain(64, 1e4));
  check_rope(rope_with(R"("rope_theta":10000,"rope_scaling":{"type":"yarn","factor":4,)"
                       R"("original_max_position_embeddings":64})"),
             yarn(64, 1e4, {4, 64}));
  check_rope(rope_with(R"("rope_theta":4,"rope_scaling":{"type":"yarn","factor":4,)"
                       R"("original_max_position_embeddings":8192})"),
             yarn(64, 4, {4, 8192}));
}

TEST_CASE("rope: yarn without a factor, or with null, takes the ratio of the positions") {
  const std::string original = R"("original_max_position_embeddings":1024)";
  const std::vector<double> expected = yarn(64, 1e4, {8, 1024});
  for (const std::string& factor : {std::string(), std::string(R"(,"factor":null)"), std::string(R"(,"factor":8)")}) {
    CASE(factor);
    const Rope rope = rope_with(R"("rope_theta":10000,"rope_scaling":{"type":"yarn",)" + original + factor + "}");
    check_rope(rope, expected);
    CHECK(rope.magnitude == static_cast<float>(magnitude(8)));
  }
  // Without the original positions either, nothing is scaled.
  const Rope rope = rope_with(R"("rope_theta":10000,"rope_scaling":{"type":"yarn"})");
  check_rope(rope, plain(64, 1e4));
  CHECK(rope.magnitude == 1);
}

TEST_CASE("rope: yarn's magnitude is the one given, that of a pair of mscales, or that of the factor") {
  const auto found = [](const std::string& fields) {
    return rope_with(R"("rope_scaling":{"type":"yarn","factor":40,"original_max_position_embeddings":4096)" + fields +
                     "}")
        .magnitude;
  };
  const auto near = [](float value, double expected) { return std::abs(value / expected - 1) < 1e-6; };
  CHECK(near(found(""), magnitude(40)));
  CHECK(near(found(R"(,"mscale":0.5,"mscale_all_dim":1.5)"), magnitude(40, 0.5) / magnitude(40, 1.5)));
  CHECK(found(R"(,"mscale":0.707,"mscale_all_dim":0.707)") == 1);
  // transformers uses the pair alone, and takes 0 for missing.
  CHECK(near(found(R"(,"mscale":0.5)"), magnitude(40)));
  CHECK(near(found(R"(,"mscale_all_dim":0.5)"), magnitude(40)));
  CHECK(near(found(R"(,"mscale":0.5,"mscale_all_dim":0)"), magnitude(40)));
  CHECK(near(found(R"(,"mscale":0,"mscale_all_dim":1)"), magnitude(40)));
  CHECK(near(found(R"(,"attention_factor":1.25)"), 1.25));
  CHECK(near(found(R"(,"attention_factor":1.25,"mscale":0.5,"mscale_all_dim":1.5)"), 1.25));
  CHECK(near(found(R"(,"attention_factor":null)"), magnitude(40)));
  CHECK(rope_with(R"("rope_scaling":{"type":"yarn","factor":1})").magnitude == 1);
}

TEST_CASE("rope: mscale_all_dim scales the scores of latent attention by its square") {
  const auto scale = [](const std::string& fields) {
    return attention_of(parse_family("deepseek_v3", R"("rope_scaling":{"type":"yarn")" + fields + "}")).scale *
           std::sqrt(192.0);
  };
  const auto near = [](double value, double expected) { return std::abs(value / expected - 1) < 1e-6; };
  const std::string factor = R"(,"factor":40)", original = R"(,"original_max_position_embeddings":512)";
  CHECK(near(scale(factor), 1));
  CHECK(near(scale(factor + R"(,"mscale_all_dim":0)"), 1));
  CHECK(near(scale(factor + R"(,"mscale_all_dim":0.707)"), std::pow(magnitude(40, 0.707), 2)));
  // The factor is 4096 / 512 where it is missing, by the family's default of the positions.
  CHECK(near(scale(original + R"(,"mscale_all_dim":1)"), std::pow(magnitude(8), 2)));
  CHECK(near(scale(original + R"(,"factor":null,"mscale_all_dim":1)"), std::pow(magnitude(8), 2)));
  // As in transformers, whatever scales the positions.
  const ModelSpec linear =
      parse_family("deepseek_v3", R"("rope_scaling":{"type":"linear","factor":4,"mscale_all_dim":1})");
  CHECK(near(attention_of(linear).scale * std::sqrt(192.0), std::pow(magnitude(4), 2)));
  const ModelSpec whole = parse_family("deepseek_v3", R"("rope_scaling":{"type":"default","mscale_all_dim":1})");
  CHECK(near(attention_of(whole).scale * std::sqrt(192.0), 1));
}

TEST_CASE("rope: where a part of a head is rotated, frequencies and ramps are those of that part") {
  const auto glm = [](const std::string& fields) { return rope_of(parse_family("glm4_moe", fields)); };
  check_rope(glm(R"("head_dim":64,"partial_rotary_factor":0.25)"), plain(16, 1e4));
  check_rope(glm(R"("head_dim":64,"rope_parameters":{"partial_rotary_factor":0.75,"rope_theta":500})"), plain(48, 500));
  // 0.32 of 64 columns are 20.5, of which 20 are rotated; of 0.3, 19.2, the frequencies are those of 19.
  check_rope(glm(R"("head_dim":64,"partial_rotary_factor":0.32)"), plain(20, 1e4));
  check_rope(glm(R"("head_dim":64,"partial_rotary_factor":0.3)"), plain(19, 1e4));
  check_rope(glm(R"("head_dim":64,"rope_scaling":{"type":"yarn","factor":4,"beta_fast":16,)"
                 R"("original_max_position_embeddings":1024})"),
             yarn(32, 1e4, {4, 1024, 16}));
  check_refused("glm4_moe", {{R"("head_dim":64,"partial_rotary_factor":0.3,"rope_scaling":{"type":"yarn","factor":4})",
                              {"\"partial_rotary_factor\"", "even number of a head's 64 columns", "found 0.3"}}});
}

TEST_CASE("rope: the original positions are the config's own field, the rope's, or all positions") {
  const std::string yarn_type = R"("rope_theta":10000,"rope_parameters":{"type":"yarn","factor":4)";
  const std::string llama3_type = R"("rope_theta":10000,"rope_parameters":{"type":"llama3","factor":4)";
  const std::string inner = R"(,"original_max_position_embeddings":1024})";
  const std::string outer = R"("original_max_position_embeddings":512,)";
  check_rope(rope_with(yarn_type + "}"), yarn(64, 1e4, {4, 8192}));
  check_rope(rope_with(yarn_type + inner), yarn(64, 1e4, {4, 1024}));
  check_rope(rope_with(outer + yarn_type + inner), yarn(64, 1e4, {4, 512}));
  check_rope(rope_with(llama3_type + "}"), llama3(64, 1e4, 4, 1, 4, 8192));
  const std::string fewer = R"("head_dim":64,"max_position_embeddings":2048,)" + llama3_type + "}";
  check_rope(rope_of(parse_family("mixtral", fewer)), llama3(64, 1e4, 4, 1, 4, 2048));
  check_rope(rope_with(outer + llama3_type + inner), llama3(64, 1e4, 4, 1, 4, 512));
}

TEST_CASE("rope: rope_scaling counts as a whole before rope_parameters, where it is not empty") {
  const std::string parameters = R"("rope_parameters":{"type":"linear","factor":4,"rope_theta":500})";
  const auto linear = [](double theta, double factor) {
    std::vector<double> expected = plain(64, theta);
    for (double& one : expected) one /= factor;
    return expected;
  };
  check_rope(rope_with(parameters + R"(,"rope_scaling":{})"), linear(500, 4));
  check_rope(rope_with(parameters + R"(,"rope_scaling":null)"), linear(500, 4));
  check_rope(rope_with(parameters + R"(,"rope_scaling":{"type":"linear","factor":8})"), linear(1e6, 8));
}

TEST_CASE("rope: types and factors that are not supported are named") {
  check_refused(
      "mixtral",
      {{R"("rope_scaling":{"type":"dynamic","factor":2})", {"\"rope_scaling.type\"", "found \"dynamic\""}},
       {R"("rope_scaling":{"rope_type":"longrope"})", {"\"rope_scaling.rope_type\"", "found \"longrope\""}},
       {R"("rope_parameters":{"rope_type":"proportional"})",
        {"\"rope_parameters.rope_type\"", "\"yarn\" or \"llama3\"", "found \"proportional\""}},
       {R"("rope_scaling":{"rope_type":3})", {"\"rope_scaling.rope_type\"", "found 3"}},
       {R"("rope_parameters":{"sliding_attention":{}})", {"\"rope_parameters.sliding_attention\"", "expected none"}},
       {R"("rope_scaling":{"type":"linear"})", {"\"rope_scaling.factor\"", "found none"}},
       {R"("rope_scaling":{"type":"llama3"})", {"\"rope_scaling.factor\"", "found none"}},
       {R"("rope_scaling":{"type":"linear","factor":0})", {"\"rope_scaling.factor\"", "found 0"}},
       {R"("rope_scaling":{"type":"yarn","factor":"4"})", {"\"rope_scaling.factor\"", "found \"4\""}},
       {R"("rope_scaling":{"type":"yarn","factor":4,"attention_factor":0})",
        {"\"rope_scaling.attention_factor\"", "found 0"}},
       {R"("rope_scaling":{"type":"yarn","factor":4,"beta_fast":0})", {"\"rope_scaling.beta_fast\"", "found 0"}},
       {R"("rope_scaling":{"type":"yarn","factor":4,"truncate":0})", {"\"rope_scaling.truncate\"", "true or false"}},
       {R"("rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":5})",
        {"\"rope_scaling.high_freq_factor\"", "more than \"low_freq_factor\"", "found 4"}},
       {R"("rope_scaling":{"type":"llama3","factor":8,"low_freq_factor":2,"high_freq_factor":2})",
        {"\"rope_scaling.high_freq_factor\"", "found 2"}}});
}

}  // namespace
