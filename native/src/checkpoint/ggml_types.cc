#include "checkpoint/ggml_types.h"

#include <iterator>
#include <utility>

namespace sida {
namespace {

// By their numbers.
constexpr const char* kNames[] = {
    "F32",        "F16",        "Q4_0",       "Q4_1",  "Q4_2",     "Q4_3",     "Q5_0",     "Q5_1",    "Q8_0",
    "Q8_1",       "Q2_K",       "Q3_K",       "Q4_K",  "Q5_K",     "Q6_K",     "Q8_K",     "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS",    "IQ1_S",      "IQ4_NL",     "IQ3_S", "IQ2_S",    "IQ4_XS",   "I8",       "I16",     "I32",
    "I64",        "F64",        "IQ1_M",      "BF16",  "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",   "TQ2_0",
    "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4",    "Q1_0",
};

constexpr std::pair<uint32_t, Dtype> kReadable[] = {
    {0, Dtype::kF32},       {1, Dtype::kF16},     {30, Dtype::kBF16}, {8, Dtype::kQ8_0},   {14, Dtype::kQ6_K},
    {13, Dtype::kQ5_K},     {12, Dtype::kQ4_K},   {11, Dtype::kQ3_K}, {10, Dtype::kQ2_K},  {7, Dtype::kQ5_1},
    {6, Dtype::kQ5_0},      {3, Dtype::kQ4_1},    {2, Dtype::kQ4_0},  {23, Dtype::kIq4Xs}, {20, Dtype::kIq4Nl},
    {21, Dtype::kIq3S},     {18, Dtype::kIq3Xxs}, {22, Dtype::kIq2S}, {17, Dtype::kIq2Xs}, {16, Dtype::kIq2Xxs},
    {39, Dtype::kGgmlMxfp4}};

}  // namespace

std::optional<Dtype> ggml_dtype(uint32_t type) {
  for (const auto& [number, dtype] : kReadable) {
    if (number == type) return dtype;
  }
  return std::nullopt;
}

std::string ggml_type_name(uint32_t type) {
  return type < std::size(kNames) ? kNames[type] : "type " + std::to_string(type);
}

std::string readable_ggml_types() {
  std::string text;
  for (size_t i = 0; i < std::size(kReadable); ++i) {
    text += i == 0 ? "" : i + 1 < std::size(kReadable) ? ", " : " or ";
    text += dtype_name(kReadable[i].second);
  }
  return text;
}

}  // namespace sida
