#include "engine/memory_plan.h"

#include "engine/devices.h"
#include "spec/model_config.h"
#include "support/test.h"

namespace {

ModelSpec switch_base() { return parse_model_config(R"({"model_type":"switch_transformers"})", "config.json").spec; }

TEST_CASE("memory plan: a KV cache that is no whole number of pages gets the workspace of one that is") {
  const ModelSpec spec = switch_base();
  for (const size_t tokens : {1, 17, 150, 161}) {
    const size_t whole = (tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
    CHECK(workspace_bytes(spec, {64, tokens, 2}) == workspace_bytes(spec, {64, whole, 2}));
  }
}

TEST_CASE(
    "memory plan: below the smallest budget the bytes needed are named; a model without experts needs no "
    "slot") {
  const MemoryPlan plan = plan_memory(switch_base(), kF32Format, kF32Format, {256, 512, 2});
  CHECK(plan.slots_in(plan.smallest()) == 1);
  CHECK(plan.slots_in(plan.resident() * 2) == plan.experts);
  const auto numbers = numbers_of([&] { plan.slots_in(plan.smallest() - 1); }, "budget_too_small");
  CHECK(numbers.at("needed_bytes") == static_cast<double>(plan.smallest()));
  const char* config =
      R"({"model_type":"switch_transformers","num_sparse_encoder_layers":0,"num_sparse_decoder_layers":0,)"
      R"("encoder_sparse_step":0,"decoder_sparse_step":0})";
  const MemoryPlan dense =
      plan_memory(parse_model_config(config, "config.json").spec, kF32Format, kF32Format, {256, 512, 2});
  CHECK(dense.experts == 0);
  CHECK(dense.smallest() == dense.resident());
}

TEST_CASE("memory plan: routers off the device cost nothing; more experts a token cost workspace") {
  const ModelSpec spec = switch_base();
  BatchLimits limits{256, 512, 2};
  const MemoryPlan exact = plan_memory(spec, kF32Format, kF32Format, limits);
  limits.routers = false;
  const MemoryPlan predicted = plan_memory(spec, kF32Format, kF32Format, limits);
  CHECK(exact.routers > 0);
  CHECK(predicted.routers == 0);
  CHECK(exact.fixed() - predicted.fixed() == exact.routers / 4096 * 4096);
  limits.max_routing_k = 4;
  const MemoryPlan wide = plan_memory(spec, kF32Format, kF32Format, limits);
  limits.max_routing_k = 6;
  const MemoryPlan wider = plan_memory(spec, kF32Format, kF32Format, limits);
  CHECK(wider.workspace - wide.workspace == 2 * limits.max_batch_tokens * spec.width * sizeof(float));
  limits.max_routing_k = 9;
  CHECK_THROWS_WITH(plan_memory(spec, kF32Format, kF32Format, limits),
                    "a routing of 9 experts a token exceeds the 8 experts of a layer");
}

TEST_CASE("memory plan: one token of a top-k model demands k slots in each MoE layer, whatever routings may name") {
  const ModelSpec spec =
      parse_model_config(
          R"({"model_type":"olmoe","hidden_size":64,"intermediate_size":32,"num_hidden_layers":3,"vocab_size":100,)"
          R"("num_attention_heads":4,"num_experts":16,"num_experts_per_tok":4})",
          "config.json")
          .spec;
  const MemoryPlan plan = plan_memory(spec, kF32Format, kF32Format, {64, 64, 1});
  CHECK(plan.token_demand == 12);
  CHECK(plan.recency_floor() == plan.fixed() + 12 * plan.slot);
  CHECK(plan.experts == 48);
}

}  // namespace
