#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "expert/pass_needs.h"

namespace sida {

/// A coming visit of a MoE layer, with the experts that it may need.
struct PlannedVisit {
  ExpertId first;                   ///< of the layer
  size_t experts;                   ///< of the layer
  std::span<const ExpertId> ids;    ///< of those with a chance, ascending
  std::span<const double> chances;  ///< (ids), that the visit needs the expert
};

/// The visits that a table tells of.
struct PlannedTable {
  std::vector<ExpertId> ids;
  std::vector<double> chances;
  std::vector<size_t> ends;     ///< (layers), where the layer's ids end
  std::vector<ExpertId> first;  ///< (layers + 1), of each layer and behind the last

  size_t layers() const { return ends.size(); }
  PlannedVisit visit(size_t layer) const {
    const size_t begin = layer == 0 ? 0 : ends[layer - 1];
    const size_t count = ends[layer] - begin;
    return {first[layer], first[layer + 1] - first[layer], std::span(ids).subspan(begin, count),
            std::span(chances).subspan(begin, count)};
  }
};

/// Corrects the forecasts of tables with the observed routing. A table treats its tokens as independent, ignores
/// earlier texts, and may be wrong. Logistic regression with stochastic gradient descent therefore learns, as passes
/// run, the chance that a layer needs an expert. Its inputs are the forecast, the frequency of the expert's uses, and
/// the time since its last use.
class NeedCalibration {
 public:
  explicit NeedCalibration(ExpertShape shape) : shape_(std::move(shape)) {}

  /// The experts that the table's layers may need. Their chances are the forecast's until a layer is learned from.
  PlannedTable corrected(const TableNeeds& table) const;

  /// `found` has the shape of the table's needs: not 0 where the layer needed the expert.
  void learn(const TableNeeds& table, std::span<const uint8_t> found);

  /// Weight of the tables' forecast, mean over layers. 1 trusts the tables, 0 ignores them, and a negative weight
  /// inverts them. It starts at 1.
  double table_weight() const;

 private:
  /// Visits of the layer since the expert's last use fall into classes: 1, 2, to 4, to 8, to 16, and more.
  static constexpr size_t kAgeClasses = 6;

  struct Layer {
    explicit Layer(size_t experts);
    double history_odds(size_t index) const;
    /// Lists the experts that may be needed, and returns how many. The lists have room for all experts.
    size_t likely(std::span<const float> need, std::span<ExpertId> indices, std::span<double> chances) const;
    void adjust(std::span<const float> need, std::span<const uint8_t> found);
    void count(std::span<const uint8_t> found);

    uint32_t visits = 0;
    double bias = 0;
    double forecast = 1;                    ///< weight of the forecast
    double frequency = 0;                   ///< weight of the frequency
    std::array<double, kAgeClasses> age{};  ///< weights of the age classes
    std::vector<double> uses;               ///< (experts), visits that needed the expert
    std::vector<double> frequencies;        ///< (experts), share of the visits that needed it, in log-odds
    std::vector<uint8_t> ages;              ///< (experts), visits since its last use, at most 17
  };

  ExpertShape shape_;
  std::unordered_map<ExpertId, Layer> layers_;  ///< by the layer's first expert
};

}  // namespace sida
