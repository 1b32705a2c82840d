#pragma once

#include <cstdint>
#include <string>

#include "spec/families/family.h"

namespace sida {

/// Nomic's BERT with experts in every other layer (nomic-embed-text-v2-moe): an encoder alone.
extern const Family kNomicBert;
extern const GgufForm kNomicBertGguf;

ModelSpec read_nomic_bert_config(const ConfigReader& config);

/// `matrix` has the queries of all heads, then the keys, then the values. The slot is its third number `part`, from 0.
TensorSource third_of(const std::string& matrix, const TensorSlot& slot, uint64_t part);

}  // namespace sida
