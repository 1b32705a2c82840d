#include "expert/pass_needs.h"

#include <string>

#include "core/error.h"

namespace sida {

void check_needs(const PassNeeds& needs, const ExpertShape& shape, size_t pass_layers) {
  const size_t row = shape.experts_per_layer;
  const auto check = [&](const std::vector<TableNeeds>& tables) {
    size_t told = 0;
    for (const TableNeeds& table : tables) {
      const size_t layers = row == 0 ? 0 : table.need.size() / row;
      told += layers;
      if (row > 0 && layers * row == table.need.size() && table.layer <= shape.layers &&
          layers <= shape.layers - table.layer) {
        continue;
      }
      throw Error("invalid_request", "a table tells of " + std::to_string(table.need.size()) + " experts from layer " +
                                         std::to_string(table.layer) + " on, of a model with " +
                                         std::to_string(shape.layers) + " MoE layers and rows of " +
                                         std::to_string(row) + " experts");
    }
    return told;
  };
  check(needs.behind);
  for (const std::vector<TableNeeds>& batch : needs.upcoming) check(batch);
  if (const size_t told = check(needs.own); told > pass_layers) {
    throw Error("invalid_request", "the tables of a pass tell of " + std::to_string(told) + " MoE layers; it has " +
                                       std::to_string(pass_layers));
  }
  if (!(needs.link.busy >= 0 && needs.link.busy <= 1 && needs.link.stay >= 0)) {
    throw Error("invalid_request", "a link is busy for a share of " + std::to_string(needs.link.busy) +
                                       " of the time, and experts stay for " + std::to_string(needs.link.stay) +
                                       " visits: expected 0 to 1, and at least 0");
  }
}

}  // namespace sida
