#include "weights/coded_panels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/dtype.h"

namespace sida {
namespace {

constexpr unsigned kCodes = 15;

/// Where a number's sign and mantissa lie in its panel, and its code.
size_t rest_offset(size_t input, size_t column) {
  const size_t plane = input % kCodedInputs / 4;
  return kPanelStepBytes + input / kCodedInputs * kCodedBytes + plane * kPanelStepBytes + coded_byte(input, column);
}
size_t code_offset(size_t input, size_t column) {
  return kPanelStepBytes + input / kCodedInputs * kCodedBytes + 2 * kPanelStepBytes + coded_byte(input, column);
}
unsigned code_shift(size_t input) { return static_cast<unsigned>(input % kCodedInputs / 4 * 4); }

unsigned exponent_of(uint16_t number) { return number >> 7 & 255U; }

/// The base whose codes stand for the most numbers.
unsigned choose_base(const std::vector<uint16_t>& numbers) {
  std::array<size_t, 256> counts{};
  for (const uint16_t number : numbers) ++counts[exponent_of(number)];
  size_t within = 0, most = 0;
  for (unsigned code = 1; code <= kCodes; ++code) within += counts[code];
  unsigned best = 0;
  most = within;
  for (unsigned base = 1; base <= kMostBase; ++base) {
    within += counts[base + kCodes] - counts[base];
    if (within <= most) continue;
    most = within;
    best = base;
  }
  return best;
}

/// What a panel says of its escapes, whatever its bytes are.
struct Escapes {
  const uint16_t* starts;
  const uint32_t* words;
  size_t count;

  Escapes(const std::byte* panel, size_t k)
      : starts(reinterpret_cast<const uint16_t*>(panel + starts_offset(k))),
        words(reinterpret_cast<const uint32_t*>(panel + escapes_offset(k))),
        count(std::min<size_t>(starts[escape_starts(k)], most_escapes(k))) {}
};

/// Packs up to 32 rows as one panel, whose bytes were 0. Returns the number of its escapes, which it does not write
/// where there is no room for them.
size_t pack_panel(const float* weight, size_t n, size_t k, std::byte* panel) {
  std::vector<uint32_t> escapes;
  std::vector<uint16_t> numbers(k);
  for (size_t column = 0; column < n; ++column) {
    std::transform(weight + column * k, weight + (column + 1) * k, numbers.begin(), f32_to_bf16);
    const unsigned base = choose_base(numbers);
    for (size_t input = 0; input < 4; ++input) panel[coded_byte(input, column)] = static_cast<std::byte>(base);
    for (size_t input = 0; input < k; ++input) {
      const uint16_t number = numbers[input];
      const unsigned exponent = exponent_of(number);
      panel[rest_offset(input, column)] = static_cast<std::byte>((number >> 8 & 0x80) | (number & 0x7f));
      if (exponent > base && exponent <= base + kCodes) {
        panel[code_offset(input, column)] |= static_cast<std::byte>((exponent - base) << code_shift(input));
      } else if (exponent != 0) {
        escapes.push_back(static_cast<uint32_t>((input * kPanelColumns + column) << 8 | exponent));
      }
    }
  }
  if (escapes.size() > most_escapes(k)) return escapes.size();
  std::sort(escapes.begin(), escapes.end());
  auto* starts = reinterpret_cast<uint16_t*>(panel + starts_offset(k));
  for (size_t i = 0; i <= escape_starts(k); ++i) {
    const size_t first = i * kEscapeInputs * kPanelColumns;
    const auto from =
        std::partition_point(escapes.begin(), escapes.end(), [&](uint32_t escape) { return escape >> 8 < first; });
    starts[i] = static_cast<uint16_t>(from - escapes.begin());
  }
  std::memcpy(panel + escapes_offset(k), escapes.data(), escapes.size() * sizeof(uint32_t));
  return escapes.size();
}

}  // namespace

std::string CrowdedPanel::text(size_t k) const {
  const size_t first = panel * kPanelColumns;
  return "bf16c codes 15 exponents a row; of rows " + std::to_string(first) + " to " +
         std::to_string(first + kPanelColumns - 1) + " " + std::to_string(escapes) + " of " +
         std::to_string(k * kPanelColumns) + " weights have others, and " + std::to_string(most_escapes(k)) +
         " have room";
}

std::optional<CrowdedPanel> pack_coded_panels(const float* weight, size_t n, size_t k, std::byte* out) {
  const size_t stride = panel_stride(k, kBf16cFormat);
  for (size_t row = 0, panel = 0; row < n; row += kPanelColumns, ++panel) {
    std::byte* at = out + panel * stride;
    std::memset(at, 0, stride);
    const size_t escapes = pack_panel(weight + row * k, std::min(kPanelColumns, n - row), k, at);
    if (escapes > most_escapes(k)) return CrowdedPanel{panel, escapes};
  }
  return std::nullopt;
}

void read_coded_column(const std::byte* panel, size_t k, size_t column, float* out) {
  const auto base = static_cast<unsigned>(panel[coded_byte(0, column)]);
  const auto number = [&](size_t input, unsigned exponent) {
    const auto rest = static_cast<unsigned>(panel[rest_offset(input, column)]);
    return bf16_to_f32(static_cast<uint16_t>((rest & 0x80) << 8 | (exponent & 255U) << 7 | (rest & 0x7f)));
  };
  for (size_t input = 0; input < k; ++input) {
    const unsigned code = static_cast<unsigned>(panel[code_offset(input, column)]) >> code_shift(input) & 15U;
    out[input] = number(input, code == 0 ? 0 : base + code);
  }
  const Escapes escapes(panel, k);
  for (size_t i = 0; i < escapes.count; ++i) {
    const size_t place = escapes.words[i] >> 8;
    if (place % kPanelColumns != column || place / kPanelColumns >= k) continue;
    out[place / kPanelColumns] = number(place / kPanelColumns, escapes.words[i]);
  }
}

bool codes_hold(const std::byte* panel, size_t k) {
  for (size_t column = 0; column < kPanelColumns; ++column) {
    const std::byte base = panel[coded_byte(0, column)];
    if (static_cast<unsigned>(base) > kMostBase) return false;
    for (size_t input = 1; input < 4; ++input) {
      if (panel[coded_byte(input, column)] != base) return false;
    }
  }
  const Escapes escapes(panel, k);
  const uint16_t* starts = escapes.starts;
  const size_t last = escape_starts(k);
  if (starts[0] != 0 || starts[last] != escapes.count || !std::is_sorted(starts, starts + last + 1)) return false;
  for (size_t i = 0; i < escapes.count; ++i) {
    const size_t place = escapes.words[i] >> 8, group = place / kPanelColumns / kEscapeInputs;
    if (place / kPanelColumns >= k || i < starts[group] || i >= starts[group + 1]) return false;
    if (i > 0 && place <= escapes.words[i - 1] >> 8) return false;
  }
  return true;
}

}  // namespace sida
