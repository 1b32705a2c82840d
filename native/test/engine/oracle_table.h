#pragma once

#include "support/oracle_cases.h"

// What the oracle tests run: fixtures in the types of their packs, each on every device and at several budgets.
namespace sida::testing {

struct OracleRow {
  std::string fixture;
  std::optional<WeightFormat> experts = kF32Format, dense = kF32Format;  ///< none: each matrix in a type of its own
  /// Largest relative error against transformers in float32; without `only` experts and greedy tokens are equal too.
  /// About twice what was measured where types lose bits: a router's near ties may fall otherwise for up to two pairs
  /// of token and layer in bf16 and int8, for up to five in int4, for which the wide bounds leave room.
  double error = 1e-4;
  std::string only = {};  ///< the case that the bound is for
  /// Largest relative error against the same weights written out as f32, on the cpu and on cuda, where weights of bf16,
  /// int8 and int4 meet activations of 16 bits; those of the twin meet 24.
  struct Twin {
    double cpu, cuda;
  };
  std::optional<Twin> twin = {};
  /// Weights of fixtures are random, so many router decisions are near ties. How many sequences are routed as by
  /// transformers does not depend on the machine; `error` is that of their states; so many greedy texts are the same.
  struct Kept {
    size_t routed, greedy;
  };
  std::optional<Kept> kept = {};
  ActivationFormat activations = ActivationFormat::kF32;

  /// Whether nothing is lost: all cases, their routers and greedy tokens are those of transformers.
  bool exact() const { return only.empty() && !twin && !kept; }
};

inline std::vector<OracleRow> oracle_table() {
  constexpr WeightFormat f32 = kF32Format, bf16 = kBf16Format, int8 = kInt8Format, int4 = int4_format(32);
  constexpr OracleRow::Twin twin{2e-5, 3e-4};
  using Kept = OracleRow::Kept;
  const std::string capacity = "switch-tiny-capacity4", untied = "switch-tiny-untied";
  std::vector<OracleRow> rows{
      {"switch-tiny"},
      {capacity},
      {untied},
      {"nllb-moe-tiny"},
      {"nomic-bert-tiny"},
      {"olmoe-tiny", bf16, bf16, 0.02, "c1."},
      {"olmoe-tiny", int8, f32, 0.02, "c1."},
      {"olmoe-tiny", int8, int8, 0.1, "c1."},
      {"olmoe-tiny", int4, int8, 0.2, "c1."},
      {"mixtral-tiny", bf16, bf16, 0.02, "c1."},
      {"mixtral-tiny", int8, f32, 0.02, "c1."},
      {"mixtral-tiny", int4, f32, 0.3, "c0."},
      {"qwen2-moe-tiny", bf16, bf16, 0.06, "c1."},
      {"qwen2-moe-tiny", int8, f32, 0.01, "c1."},
      {"qwen2-moe-tiny", int4, f32, 0.15, "c1."},
      {"qwen3-moe-tiny", bf16, bf16, 0.03, "c1."},
      {"qwen3-moe-tiny", int8, f32, 0.02, "c1."},
      {"qwen3-moe-tiny", int4, f32, 0.4, "c1."},
      {"gpt-oss-tiny", bf16, bf16, 0.02, "c1."},
      {"gpt-oss-tiny", int8, f32, 0.03, "c1."},
      {"gpt-oss-tiny", int4, f32, 0.4, "c1."},
      {"glm4-moe-tiny", bf16, bf16, 0.03, "c1."},
      {"glm4-moe-tiny", int8, f32, 0.01, "c1."},
      {"glm4-moe-tiny", int4, f32, 0.4, "c1."},
      {"deepseek-v2-lite-tiny", bf16, bf16, 0.02, "c1."},
      {"deepseek-v2-lite-tiny", int8, f32, 0.01, "c1."},
      {"deepseek-v2-lite-tiny", int4, f32, 0.15, "c1."},
      {"deepseek-v3-tiny", bf16, bf16, 0.03, "c1."},
      {"deepseek-v3-tiny", int8, f32, 0.02, "c1."},
      {"deepseek-v3-tiny", int4, f32, 0.5, "c0."},
      {"qwen3-next-tiny", bf16, bf16, 1e-4, "c1."},
      {"qwen3-next-tiny", int8, f32, 0.13, "c1.", twin},
      {"qwen3-next-tiny", int4, int8, 0.2, "c0.", twin},
      {"qwen3-5-moe-tiny", bf16, bf16, 1e-4, "c1."},
      {"qwen3-5-moe-tiny", int8, f32, 0.1, "c1.", twin},
      {"qwen3-5-moe-tiny", int4, int8, 0.2, "c0.", twin},
      {"gemma4-tiny", bf16, bf16, 1e-4, "c1."},
      {"gemma4-tiny", int8, f32, 0.04, "c1.", twin},
      {"gemma4-tiny", int4, int8, 0.4, "c1.", twin},
      {"nomic-bert-tiny", bf16, bf16, 1e-4, "c1."},
      {"nomic-bert-tiny", int8, f32, 0.005, "c1.", twin},
      {"nomic-bert-tiny", int4, int8, 0.02, "c1.", twin},
      {"nllb-moe-tiny", bf16, f32, 0.005, "c1."},
      {"nllb-moe-tiny", bf16, bf16, 0.012, "c0."},
      {"nllb-moe-tiny", bf16, bf16, 0.17, "c2."},
      {"nllb-moe-tiny", int8, f32, 0.02, "c1."},
      {"nllb-moe-tiny", int8, int8, 0.08, "c0."},
      {"nllb-moe-tiny", int4, f32, 0.07, "c0."},
      {"nllb-moe-tiny", int4, f32, 0.3, "c1."},
      // The checkpoint's own experts: nothing is lost.
      {"gpt-oss-tiny", kMxfp4Format, f32, 1e-5, "c2.", OracleRow::Twin{1e-5, 1e-5}},
      {capacity, bf16, f32, 0.005, {}, twin, Kept{10, 10}},
      {capacity, int8, f32, 0.02, {}, twin, Kept{9, 10}},
      {capacity, int8, int8, 0.06, {}, twin, Kept{2, 4}},
      {capacity, int4, f32, 0.2, {}, twin, Kept{3, 5}},
      {capacity, int4_format(64), f32, 0.2, {}, twin, Kept{3, 7}},
      {capacity, int4_format(128), f32, 0.2, {}, twin, Kept{5, 6}},
      {capacity, bf16, bf16, 0.06, {}, {}, Kept{4, 8}, ActivationFormat::kBf16},
      {capacity, bf16, bf16, 0, {}, twin},
      {capacity, kQ8_0Format, kQ8_0Format, 0, {}, twin},
      {capacity, kQ4_0Format, kMxfp4Format, 0, {}, twin},
      {capacity, {}, {}, 0, {}, twin},
      {untied, bf16, f32, 0.005, {}, twin, Kept{10, 10}},
      {untied, int8, f32, 0.02, {}, twin, Kept{6, 8}},
      {untied, int8, int8, 0.06, {}, twin, Kept{2, 1}},
      {untied, int4, f32, 0.2, {}, twin, Kept{2, 0}},
      {untied, int4_format(64), f32, 0, {}, twin},
      {untied, int4_format(128), f32, 0, {}, twin},
      {untied, bf16, bf16, 0.02, {}, {}, Kept{3, 4}, ActivationFormat::kBf16},
      {untied, bf16, bf16, 0, {}, twin},
  };
  for (const char* name : kDecoderFixtures) rows.push_back({name});
  for (const std::string& name : further_fixtures()) rows.push_back({name});
  return rows;
}

}  // namespace sida::testing
