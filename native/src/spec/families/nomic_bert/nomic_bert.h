#pragma once

#include <cstdint>
#include <string>

#include "spec/families/family.h"

namespace sida {

/// Nomic's BERT with experts in every other layer (nomic-embed-text-v2-moe): an encoder alone.
extern const Family kNomicBert;
extern const GgufForm kNomicBertGguf;

ModelSpec read_nomic_bert_config(const ConfigReader& config);

/// Queries, keys and values of all heads lie one after the other in `matrix`, of which a slot is the third `part`.
TensorSource third_of(const std::string& matrix, const TensorSlot& slot, uint64_t part);

}  // namespace sida
