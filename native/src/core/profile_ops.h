#pragma once

#include <cstdint>
#include <span>

namespace sida {

/// What an event of a profile is. Those above kTokenize are recorded here, the others by the TypeScript
/// threads.
enum class ProfileOp : uint16_t {
  kEncode,
  kDecode,
  kLayer,
  kEmbed,
  kNorm,
  kSelfAttention,
  kCrossAttention,
  kAttend,
  kContextKeys,
  kDense,
  kMoe,
  kRoute,
  kTakeExpert,
  kExperts,
  kCombine,
  kStall,
  kHead,
  kDemand,
  kPrefetch,
  kPredict,
  kPredictStep,
  kTokenize,
  kBatchWait,
  kBuildTable,
  kStepTable,
  kTableWait,
  kIdle,
  kBatch,
  kStep,
  kPlan,
  kAccount,
  kSample,
  kEmit,
  kCount,
};

struct ProfileOpInfo {
  ProfileOp op;
  const char* name;
  const char* category;
};

/// All ops, in the order of their numbers.
std::span<const ProfileOpInfo> profile_ops();

}  // namespace sida
