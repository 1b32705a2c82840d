#include "core/profile_ops.h"

#include <array>

namespace sida {
namespace {

using enum ProfileOp;

constexpr std::array<ProfileOpInfo, static_cast<size_t>(kCount)> kOps{{
    {kEncoderPass, "encoder pass", "pass"},
    {kDecoderPass, "decoder pass", "pass"},
    {kLayer, "layer", "layer"},
    {kEmbed, "embed", "embed"},
    {kNorm, "norm", "norm"},
    {kSelfAttention, "self attention", "attention"},
    {kCrossAttention, "cross attention", "attention"},
    {kAttend, "attend", "attention"},
    {kCrossKeys, "cross-attention keys", "attention"},
    {kDense, "dense ffn", "dense"},
    {kMoe, "moe", "dispatch"},
    {kRoute, "route", "router"},
    {kRouteAhead, "route ahead", "router"},
    {kTakeExpert, "take expert", "dispatch"},
    {kExperts, "experts", "expert"},
    {kCombine, "combine", "dispatch"},
    {kStall, "stall", "stall"},
    {kHead, "head", "head"},
    {kDemand, "on-demand transfer", "transfer"},
    {kPrefetch, "prefetch transfer", "transfer"},
    {kPredict, "predict", "predictor"},
    {kPredictStep, "predict step", "predictor"},
    {kPlan, "plan", "plan"},
    {kTokenize, "tokenize", "request"},
    {kBatchWait, "batch wait", "queue"},
    {kBuildTable, "build table", "table"},
    {kStepTable, "step table", "table"},
    {kTableWait, "table wait", "wait"},
    {kIdle, "idle", "wait"},
    {kBatch, "batch", "loop"},
    {kStep, "step", "loop"},
    {kAccount, "account", "reply"},
    {kSample, "sample", "reply"},
    {kEmit, "emit", "reply"},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

std::span<const ProfileOpInfo> profile_ops() { return kOps; }

}  // namespace sida
