#include "expert/need_calibration.h"

#include <algorithm>
#include <cmath>

namespace sida {
namespace {

/// The learning rate falls from the first to the last, and not to 0, because texts change.
constexpr double kFirstRate = 0.1;
constexpr double kLastRate = 0.02;
constexpr double kSlowing = 16;
/// Extra factor on the rate of weights whose inputs are log-odds, which reach ±9.
constexpr double kOddsRate = 0.3;
/// Keeps the log-odds of 0 and 1 finite.
constexpr double kEdge = 1e-4;
/// An expert without a need teaches nothing below these log-odds: its chance is below 0.7 %.
constexpr double kCertainOdds = -5;
/// Experts below these log-odds are left out of plans: their chance is below 1 %.
constexpr double kLeastOdds = -4.6;
/// The frequency of an expert without needs changes slowly, so that one visit in so many refreshes it. A power of 2.
constexpr uint32_t kRefresh = 16;
/// Weights change slowly after so many visits, so that one visit in four is learned from, at random.
constexpr uint32_t kSettled = 64;

/// (visits since the last use), the age class.
constexpr std::array<uint8_t, 18> kAgeClass{0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5};
constexpr uint8_t kOldest = kAgeClass.size() - 1;

const double kNoOdds = std::log(kEdge / (1 + kEdge));

/// A table's chance, from 0 to 1.
double chance_in(float need) { return need > 0 ? std::min<double>(need, 1) : 0; }

/// Most forecasts are 0, and a logarithm costs more than all else here.
double odds(double chance) { return chance == 0 ? kNoOdds : std::log((chance + kEdge) / (1 - chance + kEdge)); }

double chance_of(double odds) { return 1 / (1 + std::exp(-odds)); }

/// A regular choice would see only a part of texts that repeat.
bool sampled(uint32_t number) { return (number * 0x9e3779b1u) >> 30 == 0; }

}  // namespace

NeedCalibration::Layer::Layer(size_t experts) : uses(experts), frequencies(experts), ages(experts, kOldest) {}

double NeedCalibration::Layer::history_odds(size_t index) const {
  return bias + frequency * frequencies[index] + age[kAgeClass[ages[index]]];
}

size_t NeedCalibration::Layer::likely(std::span<const float> need, std::span<ExpertId> indices,
                                      std::span<double> chances) const {
  // Which experts a table tells of, and which are likely, is hard to predict for a processor, so both are gathered
  // without a branch.
  size_t told = 0;
  for (size_t index = 0; index < need.size(); ++index) {
    chances[index] = forecast * kNoOdds + history_odds(index);
    indices[told] = static_cast<ExpertId>(index);
    told += need[index] > 0;
  }
  for (const ExpertId index : indices.first(told)) {
    chances[index] = forecast * odds(chance_in(need[index])) + history_odds(index);
  }
  size_t count = 0;
  for (size_t index = 0; index < need.size(); ++index) {
    const double sum = chances[index];
    indices[count] = static_cast<ExpertId>(index);
    chances[count] = sum;
    count += sum >= kLeastOdds;
  }
  for (double& chance : chances.first(count)) chance = chance_of(chance);
  return count;
}

void NeedCalibration::Layer::adjust(std::span<const float> need, std::span<const uint8_t> found) {
  const double rate = kLastRate + (kFirstRate - kLastRate) / (1 + visits / kSlowing);
  for (size_t index = 0; index < need.size(); ++index) {
    const double told = odds(chance_in(need[index]));
    const double sum = forecast * told + history_odds(index);
    const bool used = found[index] != 0;
    if (!used && sum < kCertainOdds) continue;
    const double step = ((used ? 1 : 0) - chance_of(sum)) * rate;
    bias += step;
    forecast += kOddsRate * step * told;
    frequency += kOddsRate * step * frequencies[index];
    age[kAgeClass[ages[index]]] += step;
  }
}

void NeedCalibration::Layer::count(std::span<const uint8_t> found) {
  for (size_t index = 0; index < uses.size(); ++index) {
    if (found[index] != 0) {
      uses[index] += 1;
      ages[index] = 1;
    } else {
      ages[index] = std::min<uint8_t>(kOldest, ages[index] + 1);
      if (visits > kRefresh && ((index ^ visits) & (kRefresh - 1)) != 0) continue;
    }
    frequencies[index] = odds((uses[index] + 0.5) / (visits + 2));
  }
}

PlannedTable NeedCalibration::corrected(const TableNeeds& table) const {
  const size_t row = shape_.experts_per_layer, layers = table.need.size() / row;
  PlannedTable planned;
  planned.ids.resize(table.need.size());
  planned.chances.resize(table.need.size());
  planned.ends.reserve(layers);
  for (size_t l = 0; l <= layers; ++l) planned.first.push_back(shape_.first_id(table.layer + l));
  size_t end = 0;
  for (size_t l = 0; l < layers; ++l) {
    const ExpertId first = planned.first[l];
    const auto need = table.need.subspan(l * row, planned.first[l + 1] - first);
    const auto layer = layers_.find(first);
    const auto ids = std::span(planned.ids).subspan(end);
    const auto chances = std::span(planned.chances).subspan(end);
    size_t count = 0;
    if (layer != layers_.end()) {
      count = layer->second.likely(need, ids, chances);
    } else {
      for (size_t index = 0; index < need.size(); ++index) {
        const double told = chance_in(need[index]);
        if (told == 0) continue;
        ids[count] = static_cast<ExpertId>(index);
        chances[count++] = told;
      }
    }
    for (ExpertId& id : ids.first(count)) id += first;
    planned.ends.push_back(end += count);
  }
  planned.ids.resize(end);
  planned.chances.resize(end);
  return planned;
}

void NeedCalibration::learn(const TableNeeds& table, std::span<const uint8_t> found) {
  const size_t row = shape_.experts_per_layer;
  for (size_t l = 0; l < table.need.size() / row; ++l) {
    const ExpertId first = shape_.first_id(table.layer + l);
    const size_t experts = shape_.experts_of(table.layer + l);
    Layer& layer = layers_.try_emplace(first, experts).first->second;
    const auto needed = found.subspan(l * row, experts);
    if (layer.visits < kSettled || sampled(layer.visits + first)) {
      layer.adjust(table.need.subspan(l * row, experts), needed);
    }
    layer.count(needed);
    ++layer.visits;
  }
}

double NeedCalibration::table_weight() const {
  if (layers_.empty()) return 1;
  double sum = 0;
  for (const auto& [_, layer] : layers_) sum += layer.forecast;
  return sum / static_cast<double>(layers_.size());
}

}  // namespace sida
