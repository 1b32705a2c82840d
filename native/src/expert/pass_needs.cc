#include "expert/pass_needs.h"

#include <string>

#include "core/error.h"

namespace sida {

void check_needs(const PassNeeds& needs, size_t experts, size_t layer_experts, size_t pass_experts) {
  const auto check = [&](const std::vector<TableNeeds>& tables) {
    size_t named = 0;
    for (const TableNeeds& table : tables) {
      named += table.need.size();
      if (table.layer_experts > 0 && table.layer_experts == layer_experts && table.first % layer_experts == 0 &&
          table.need.size() % layer_experts == 0 && table.first + table.need.size() <= experts) {
        continue;
      }
      throw Error("invalid_request", "a table tells of " + std::to_string(table.need.size()) + " experts from expert " +
                                         std::to_string(table.first) + " on, " + std::to_string(table.layer_experts) +
                                         " a layer, of a model with " + std::to_string(experts) + ", " +
                                         std::to_string(layer_experts) + " a layer");
    }
    return named;
  };
  check(needs.behind);
  for (const std::vector<TableNeeds>& batch : needs.upcoming) check(batch);
  if (const size_t named = check(needs.own); named > pass_experts) {
    throw Error("invalid_request", "the tables of a pass tell of " + std::to_string(named) +
                                       " experts; its layers have " + std::to_string(pass_experts));
  }
  if (!(needs.link.busy >= 0 && needs.link.busy <= 1 && needs.link.stay >= 0)) {
    throw Error("invalid_request", "a link is busy for a share of " + std::to_string(needs.link.busy) +
                                       " of the time, and experts stay for " + std::to_string(needs.link.stay) +
                                       " visits: expected 0 to 1, and at least 0");
  }
}

}  // namespace sida
