#pragma once

// What every test includes.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "doctest/doctest.h"
#include "support/random_floats.h"
#include "support/repo_paths.h"
#include "weights/weight_format.h"

namespace sida {

inline std::ostream& operator<<(std::ostream& out, const WeightFormat& format) {
  return out << weight_type_name(format.type) << "/" << format.group;
}

namespace testing {

using Sizes = std::vector<size_t>;
inline constexpr bool kBoth[] = {false, true};
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr WeightFormat int4_format(uint32_t group) { return {WeightType::kInt4, group}; }

/// All combinations of the lists' elements; the last changes first.
template <class List, class... Lists>
auto grid(const List& first, const Lists&... rest) {
  using Value = std::decay_t<decltype(*std::begin(first))>;
  if constexpr (sizeof...(rest) == 0) {
    return std::vector<std::tuple<Value>>(std::begin(first), std::end(first));
  } else {
    const auto tails = grid(rest...);
    std::vector<decltype(std::tuple_cat(std::declval<std::tuple<Value>>(), tails[0]))> all;
    for (const auto& value : first) {
      for (const auto& tail : tails) all.push_back(std::tuple_cat(std::tuple<Value>(value), tail));
    }
    return all;
  }
}

template <class T>
void add_words(std::ostream& out, const T& value) {
  if constexpr (requires { out << value; }) {
    out << std::boolalpha << value << " ";
  } else {
    out << static_cast<int>(value) << " ";
  }
}

template <class... T>
std::string words_of(const char* names, const T&... values) {
  std::ostringstream out;
  out << names << ": ";
  (add_words(out, values), ...);
  return out.str();
}

/// Names the values of a loop's variables where a check in it fails.
#define CASE(...) INFO(words_of(#__VA_ARGS__, __VA_ARGS__))

/// The error that `action` must throw with this code, in one line.
inline Error thrown_by(const std::function<void()>& action, const std::string& code) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error;
  }
  FAIL("accepted");
  return Error("", "");
}

inline std::string error_of(const std::function<void()>& action, const std::string& code = "checkpoint_invalid") {
  return thrown_by(action, code).what();
}

inline std::map<std::string, double> numbers_of(const std::function<void()>& action, const std::string& code) {
  return thrown_by(action, code).numbers();
}

/// The message has all the parts.
inline void check_has(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    CASE(message, part);
    CHECK(message.find(part) != std::string::npos);
  }
}

inline void check_error(const std::function<void()>& action, const std::vector<std::string>& parts,
                        const std::string& code = "checkpoint_invalid") {
  check_has(error_of(action, code), parts);
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}
inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

inline std::vector<int32_t> first_numbers(size_t count) {
  std::vector<int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// `count` elements from `begin` on.
template <class T>
std::vector<T> part_of(const std::vector<T>& all, size_t begin, size_t count) {
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

/// Largest difference over the largest magnitude of the reference.
template <class T>
double relative_error(const std::vector<float>& found, const std::vector<T>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0, scale = 1e-30;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(found[i])) return INFINITY;
    worst = std::max(worst, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
    scale = std::max(scale, std::abs(static_cast<double>(expected[i])));
  }
  return worst / scale;
}

inline std::string read_text_file(const std::string& path) {
  const File file = File::open(path);
  std::string text(file.size(), '\0');
  file.pread_exact(0, text.data(), text.size());
  return text;
}

/// Changes the first place of a file that reads `from`.
inline void replace_in(const std::string& path, const std::string& from, const std::string& to) {
  std::string text = read_text_file(path);
  REQUIRE(text.find(from) != std::string::npos);
  text.replace(text.find(from), from.size(), to);
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace testing
}  // namespace sida

using namespace sida;
using namespace sida::testing;
