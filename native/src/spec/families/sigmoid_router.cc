#include "spec/families/sigmoid_router.h"

#include <algorithm>
#include <string>

#include "spec/families/config_limits.h"
#include "spec/families/decoder_config.h"

namespace sida {
namespace {

constexpr double kMaxScale = 1e6;

}  // namespace

ExpertGroups read_groups(const ConfigReader& reader, const MoeSpec& moe, size_t best, int count, int kept) {
  ExpertGroups groups;
  const auto experts = static_cast<int>(moe.experts);
  groups.count = read_count(reader, "n_group", std::min(experts, static_cast<int>(kMaxExpertGroups)), count);
  const auto most = static_cast<int>(groups.count);
  groups.kept = read_count(reader, "topk_group", most, std::min(kept, most));
  groups.best = best;
  const size_t size = moe.experts / groups.count;
  if (size * groups.count != moe.experts || (groups.count > 1 && size < best)) {
    throw reader.fault("n_group",
                       "groups of equal size of the " + std::to_string(experts) + " experts, each of " +
                           std::to_string(best) + " or more",
                       std::to_string(groups.count), "");
  }
  if (moe.router.top_k > groups.kept * size) {
    throw reader.fault("topk_group", "groups with at least " + std::to_string(moe.router.top_k) + " experts",
                       std::to_string(groups.kept) + " of " + std::to_string(size), "");
  }
  return groups;
}

void read_sigmoid_router(const ConfigReader& reader, const SigmoidRouterDefaults& defaults, MoeSpec& moe) {
  reader.require_text("scoring_func", "sigmoid", "other scores of the router are not supported");
  reader.require_text("topk_method", "noaux_tc", "other choices of the router are not supported");
  moe.router.scores = RouterScores::kSigmoid;
  moe.router.corrected = true;
  moe.router.normalized = reader.boolean("norm_topk_prob", true);
  moe.router.sum_floor = 1e-20f;
  moe.router.scale = reader.real("routed_scaling_factor", 0, kMaxScale, defaults.scale);
  moe.router.groups = read_groups(reader, moe, 2, defaults.groups, defaults.kept);
}

void read_shared_experts(const ConfigReader& reader, int count, MoeSpec& moe) {
  const auto shared = static_cast<size_t>(reader.integer("n_shared_experts", 0, 64, count));
  if (shared > 0) moe.shared = SharedExpertSpec{{shared * moe.expert.width, Activation::kSwiglu}};
}

}  // namespace sida
