#pragma once

#include "ops/weight_format.h"

namespace sida {

/// All that a matrix can be packed in.
inline constexpr WeightFormat kFormats[] = {kF32Format,
                                            kBf16Format,
                                            {WeightType::kInt8, 0},
                                            {WeightType::kInt4, 32},
                                            {WeightType::kInt4, 64},
                                            {WeightType::kInt4, 128},
                                            kMxfp4Format};

}  // namespace sida
