#pragma once

#include "support/test.h"
#include "weights/panels.h"

// Plain arithmetic in float64, which tests compare with.
namespace sida::testing {

using Doubles = std::vector<double>;

inline Doubles doubles(const float* x, size_t count) { return {x, x + count}; }

inline Doubles softmax64(Doubles x) {
  const double top = *std::ranges::max_element(x);
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - top);
  for (double& value : x) value /= sum;
  return x;
}

inline Doubles rms_norm64(Doubles x, const float* weight, double epsilon) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  for (size_t i = 0; i < x.size(); ++i) x[i] *= scale * static_cast<double>(weight[i]);
  return x;
}

inline Doubles layer_norm64(Doubles x, const float* weight, const float* bias, double epsilon) {
  const auto n = static_cast<double>(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const double value : x) squares += (value - mean) * (value - mean);
  const double scale = 1 / std::sqrt(squares / n + epsilon);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = (x[i] - mean) * scale * static_cast<double>(weight[i]) + static_cast<double>(bias[i]);
  }
  return x;
}

/// What `of` makes of each row of x, one after the other.
inline Doubles by_row(const std::vector<float>& x, size_t width, const std::function<Doubles(const Doubles&)>& of) {
  Doubles all;
  for (size_t at = 0; at < x.size(); at += width) {
    const Doubles y = of(doubles(&x[at], width));
    all.insert(all.end(), y.begin(), y.end());
  }
  return all;
}

/// A matrix in the host's memory times x, with its bias.
inline Doubles product64(const PanelMatrix& w, const Doubles& x) {
  Doubles y(w.n);
  std::vector<float> row(w.k);
  for (size_t n = 0; n < w.n; ++n) {
    read_panel_row(w, n, row.data());
    y[n] = w.bias == nullptr ? 0 : static_cast<double>(w.bias[n]);
    for (size_t k = 0; k < w.k; ++k) y[n] += static_cast<double>(row[k]) * x[k];
  }
  return y;
}

/// down · max(up · x, 0)
inline Doubles relu_network64(const PanelMatrix& up, const PanelMatrix& down, const Doubles& x) {
  Doubles hidden = product64(up, x);
  for (double& value : hidden) value = std::max(value, 0.0);
  return product64(down, hidden);
}

/// A row of an embedding.
inline Doubles row64(const PanelMatrix& w, int32_t row) {
  std::vector<float> floats(w.k);
  read_panel_row(w, static_cast<size_t>(row), floats.data());
  return {floats.begin(), floats.end()};
}

/// The `count` largest values' places, the first of equal ones.
inline std::vector<uint16_t> largest(const Doubles& values, size_t count) {
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::stable_sort(order, [&](uint16_t a, uint16_t b) { return values[a] > values[b]; });
  order.resize(count);
  return order;
}

/// Checks |found - expected| <= tolerance · (1 + |expected|) of all.
inline void check_near(const std::vector<float>& found, const Doubles& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    CASE(i, found[i], expected[i]);
    REQUIRE(std::abs(static_cast<double>(found[i]) - expected[i]) <= tolerance * (1 + std::abs(expected[i])));
  }
}

}  // namespace sida::testing
