#pragma once

#include <cstdint>
#include <span>

namespace sida {

/// The kinds of events in a profile. C++ records those before kTokenize, the TypeScript threads record the others.
enum class ProfileOp : uint16_t {
  kEncoderPass,
  kDecoderPass,
  kLayer,
  kEmbed,
  kNorm,
  kSelfAttention,
  kCrossAttention,
  kAttend,
  kCrossKeys,
  kDense,
  kMoe,
  kRoute,
  kRouteAhead,
  kTakeExpert,
  kExperts,
  kCombine,
  kStall,
  kHead,
  kDemand,
  kPrefetch,
  kPredict,
  kPredictStep,
  kPlan,
  kTokenize,
  kBatchWait,
  kBuildTable,
  kStepTable,
  kTableWait,
  kIdle,
  kBatch,
  kStep,
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
