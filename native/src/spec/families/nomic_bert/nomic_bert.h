#pragma once

#include "spec/families/family.h"

namespace sida {

/// Nomic's BERT with experts in every other layer (nomic-embed-text-v2-moe): an encoder alone.
extern const Family kNomicBert;
extern const GgufForm kNomicBertGguf;

ModelSpec read_nomic_bert_config(const ConfigReader& config);

}  // namespace sida
