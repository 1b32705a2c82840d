// Attention over the cache, on every device, against float64.
#include "core/dtype.h"
#include "spec/relative_position.h"
#include "support/ops_fixture.h"

namespace {

constexpr size_t kLayer = 1;

/// One sequence with all its queries, keys and values, known before any of them is computed.
struct Known {
  size_t count;
  std::vector<float> q, k, v;
  KvPages pages;

  Known(const AttentionSpec& spec, size_t count_, unsigned seed)
      : count(count_),
        q(random_floats(count * spec.query_width(), seed)),
        k(random_floats(count * spec.kv_width(), seed + 1)),
        v(random_floats(count * spec.kv_width(), seed + 2)) {}
};

/// The part of a sequence in one pass.
struct Part {
  Known* sequence;
  size_t past;
  size_t count;
  const Known* parent = nullptr;
};

struct Heads {
  size_t heads, kv_heads, head_dim;
};

/// A decoder that cross-attends to an encoder, with a bias for the heads of each.
struct Setup {
  AttentionSpec attention;
  RelativeBias bias{8, 20};
  ModelSpec spec;
  std::vector<std::vector<float>> biases;
  std::vector<float> sinks;  ///< (heads), or none
  std::unique_ptr<OpsFixture> fixture;

  explicit Setup(DeviceKind kind, const Heads& with, KvFormat format = KvFormat::kF32, size_t tokens = 320,
                 size_t longest = 128) {
    const size_t heads = with.heads;
    spec = decoder_spec(64, heads, with.kv_heads, with.head_dim);
    spec.stacks[0].positions = bias;
    spec.stacks[0].layers[0].cross = spec.stacks[0].layers[0].self;
    StackSpec encoder = spec.stacks[0];
    encoder.name = "encoder";
    encoder.causal = false;
    spec.stacks.insert(spec.stacks.begin(), encoder);
    attention = spec.stacks[0].layers[0].self;
    biases = {random_floats(8 * heads, 90), random_floats(8 * heads, 91)};
    BatchLimits limits = limits_of(longest);
    limits.kv_tokens = tokens;
    limits.kv = format;
    fixture = std::make_unique<OpsFixture>(kind, spec, limits, biases);
  }

  /// Caches the parts' keys and values. Attention's outputs, part by part, unless the task has no spec.
  std::vector<float> run(size_t stack, const std::vector<Part>& parts, const AttendTask& task) {
    const size_t query = attention.query_width(), kv = attention.kv_width();
    std::vector<SequenceSpan> spans;
    std::vector<float> q, k, v;
    size_t tokens = 0;
    for (const Part& part : parts) {
      fixture->cache().grow(part.sequence->pages, part.past, part.past + part.count);
      spans.push_back({tokens, part.count, part.past, &part.sequence->pages});
      if (part.parent != nullptr) {
        spans.back().parent_pages = &part.parent->pages;
        spans.back().parent_keys = part.parent->count;
      }
      const auto take = [&](std::vector<float>& to, const std::vector<float>& from, size_t width) {
        const auto own = part_of(from, part.past * width, part.count * width);
        to.insert(to.end(), own.begin(), own.end());
      };
      take(q, part.sequence->q, query);
      take(k, part.sequence->k, kv);
      take(v, part.sequence->v, kv);
      tokens += part.count;
    }
    Ops& ops = fixture->ops();
    ops.start(stack, spans, tokens);
    fixture->write(fixture->at().queries, q);
    fixture->write(fixture->at().keys, k);
    fixture->write(fixture->at().values, v);
    if (!task.cross) ops.write_kv(task.cache_layer);
    if (task.spec != nullptr) ops.attend(task);
    return fixture->read(fixture->at().queries, q.size());
  }

  /// Caches the tokens before the parts.
  void cache_past(size_t stack, const std::vector<Part>& parts) {
    for (const Part& part : parts) run(stack, {{part.sequence, 0, part.past}}, {nullptr, kLayer, false, true, false});
  }

  AttendTask task(bool cross, bool causal, bool biased) const { return {&attention, kLayer, cross, causal, biased}; }

  /// The same in float64.
  std::vector<double> expected(const std::vector<Part>& parts, const AttendTask& task) const {
    const size_t dim = attention.head_dim, shared = attention.heads / attention.kv_heads;
    const size_t query = attention.query_width(), kv = attention.kv_width();
    std::vector<double> out;
    for (const Part& part : parts) {
      const Known& seen = task.cross ? *part.parent : *part.sequence;
      for (size_t position = part.past; position < part.past + part.count; ++position) {
        const size_t keys = task.cross ? seen.count : task.causal ? position + 1 : part.past + part.count;
        for (size_t head = 0; head < attention.heads; ++head) {
          const float* q = &part.sequence->q[position * query + head * dim];
          const size_t column = head / shared * dim;
          std::vector<double> weight(keys);
          double most = -1e300, sum = 0;
          const size_t first = keys > attention.window.value_or(keys) ? keys - *attention.window : 0;
          if (!sinks.empty()) most = sinks[head];
          for (size_t j = first; j < keys; ++j) {
            for (size_t d = 0; d < dim; ++d) weight[j] += static_cast<double>(q[d]) * seen.k[j * kv + column + d];
            weight[j] *= static_cast<double>(attention.scale);
            if (task.biased) {
              const int distance = static_cast<int>(j) - static_cast<int>(position);
              const int bucket = relative_position_bucket(distance, !task.causal, bias.buckets, bias.max_distance);
              weight[j] += biases[task.causal][static_cast<size_t>(bucket) * attention.heads + head];
            }
            most = std::max(most, weight[j]);
          }
          for (size_t j = first; j < keys; ++j) sum += weight[j] = std::exp(weight[j] - most);
          if (!sinks.empty()) sum += std::exp(static_cast<double>(sinks[head]) - most);
          for (size_t d = 0; d < dim; ++d) {
            double value = 0;
            for (size_t j = first; j < keys; ++j) value += weight[j] / sum * seen.v[j * kv + column + d];
            out.push_back(value);
          }
        }
      }
    }
    return out;
  }

  /// Runs it and checks the outputs.
  std::vector<float> check(size_t stack, const std::vector<Part>& parts, const AttendTask& task) {
    const std::vector<float> found = run(stack, parts, task);
    // Exponentials carry the roundings of scores, which reach 4 · scale · sqrt(head_dim).
    const double score = 4.0 * static_cast<double>(attention.scale) * std::sqrt(attention.head_dim);
    check_near(found, expected(parts, task), std::max(3e-6, std::ldexp(score, -21)));
    return found;
  }
};

constexpr Heads kHeads[] = {{2, 2, 24}, {4, 2, 16}, {6, 1, 32}};

TEST_CASE("ops: a causal stack attends to its own keys up to each token") {
  for (const auto& [kind, heads, biased] : grid(devices(), kHeads, kBoth)) {
    CASE(device_name(kind), heads.heads, biased);
    Setup s(kind, heads);
    const AttendTask task = s.task(false, true, biased);
    Known a(s.attention, 37, 1), b(s.attention, 21, 4), c(s.attention, 3, 7);
    s.check(1, {{&a, 0, 36}, {&b, 0, 20}}, task);
    s.check(1, {{&b, 20, 1}, {&c, 0, 3}, {&a, 36, 1}}, task);
  }
}

TEST_CASE("ops: a stack that is not causal attends to all of its sequence, and the next stack cross-attends to it") {
  for (const auto& [kind, heads] : grid(devices(), kHeads)) {
    CASE(device_name(kind), heads.heads);
    Setup s(kind, heads);
    Known a(s.attention, 33, 1), b(s.attention, 7, 4), c(s.attention, 5, 7), d(s.attention, 18, 10);
    s.check(0, {{&a, 0, 33}, {&b, 0, 7}}, s.task(false, false, true));
    const AttendTask cross = s.task(true, false, false);
    const auto many = s.check(1, {{&c, 0, 4, &b}, {&d, 0, 17, &a}}, cross);
    // One token of each, of a parent that both share, and a token that was among others.
    s.check(1, {{&c, 4, 1, &a}, {&d, 17, 1, &a}}, cross);
    const size_t row = s.attention.query_width();
    CHECK(same_bits(s.run(1, {{&c, 3, 1, &b}}, cross), part_of(many, 3 * row, row)));
  }
}

TEST_CASE("ops: heads of every width, shared or not, around the ends of pages and tiles") {
  for (const auto& [kind, kv_heads, format, dim] :
       grid(devices(), Sizes{1, 2, 4}, std::vector{KvFormat::kF32, KvFormat::kBf16},
            Sizes{2, 10, 16, 30, 64, 80, 128, 200, 512})) {
    CASE(device_name(kind), kv_heads, format, dim);
    Setup s(kind, {4, kv_heads, dim}, format);
    if (kv_heads == 4) s.attention.scale = 1;
    if (dim == 512) s.attention.scale = 0.02f;  // large scores lose bits
    std::vector<Known> all;
    std::vector<Part> parts;
    for (const size_t end : {17, 32, 33, 45, 32}) all.emplace_back(s.attention, end, static_cast<unsigned>(all.size()));
    const size_t pasts[] = {14, 31, 32, 5, 16};
    for (size_t i = 0; i < 5; ++i) {
      parts.push_back({&all[i], pasts[i], all[i].count - pasts[i]});
      for (auto* values : {&all[i].k, &all[i].v}) {
        for (float& value : *values) value = bf16_to_f32(f32_to_bf16(value));
      }
    }
    s.cache_past(1, parts);
    s.check(1, parts, s.task(false, true, true));
    // An encoder's.
    for (Known& known : all) s.fixture->cache().release(known.pages);
    for (Part& part : parts) part = {part.sequence, 0, part.sequence->count};
    parts.resize(3);
    s.check(0, parts, s.task(false, false, true));
  }
}

TEST_CASE("ops: every number of keys around the ends of pages, and thousands") {
  for (const DeviceKind kind : devices()) {
    Setup s(kind, {2, 1, 64}, KvFormat::kF32, 9600, 5000);
    std::vector<Known> all;
    std::vector<Part> parts;
    const Sizes keys = {1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 145, 3001, 5001};
    for (const size_t count : keys) all.emplace_back(s.attention, count, static_cast<unsigned>(count));
    for (Known& known : all) parts.push_back({&known, known.count - 1, 1});
    parts[11] = {&all[11], 2998, 3};
    s.cache_past(1, parts);
    s.check(1, parts, s.task(false, true, false));
  }
}

TEST_CASE("ops: windows and sinks, alone and together, and a row's bits without its neighbours") {
  for (const auto& [kind, heads, window, with_sinks] : grid(devices(), kHeads, Sizes{1, 5, 16, 17, 1000}, kBoth)) {
    CASE(device_name(kind), heads.heads, window, with_sinks);
    Setup s(kind, heads);
    s.attention.window = window;
    AttendTask task = s.task(false, true, false);
    if (with_sinks) {
      s.sinks = random_floats(heads.heads, 50);
      s.sinks[0] = 30;  // larger than any score
      task.sinks = s.fixture->upload(s.sinks);
    }
    Known a(s.attention, 50, 1), b(s.attention, 50, 1), c(s.attention, 3, 7);
    const auto found = s.check(1, {{&a, 0, 50}}, task);
    s.run(1, {{&b, 0, 49}}, task);
    const auto last = s.run(1, {{&c, 0, 3}, {&b, 49, 1}}, task);
    const size_t row = s.attention.query_width();
    CHECK(same_bits(last.data() + 3 * row, found.data() + 49 * row, row));
  }
}

TEST_CASE("ops: a NaN reaches the rows that see it, and no other") {
  for (const auto& [kind, window] : grid(devices(), Sizes{4, 1000})) {
    CASE(device_name(kind), window);
    Setup s(kind, {4, 2, 16});
    s.attention.window = window;
    const AttendTask task = s.task(false, true, false);
    const size_t row = s.attention.query_width(), kv = s.attention.kv_width();
    const auto outputs = [&](const Known& known) {
      Known a = known, b(s.attention, 4, 9);
      const auto found = s.run(1, {{&a, 0, 40}, {&b, 0, 4}}, task);
      for (KvPages* pages : {&a.pages, &b.pages}) s.fixture->cache().release(*pages);
      return found;
    };
    const Known sound(s.attention, 40, 1);
    const auto expected = outputs(sound);
    // A key and a value of token 7 in key head 1, and a query of token 21 in head 3.
    for (int place = 0; place < 3; ++place) {
      Known broken = sound;
      (place == 0 ? broken.k[7 * kv + 19] : place == 1 ? broken.v[7 * kv + 19] : broken.q[21 * row + 50]) = NAN;
      const auto found = outputs(broken);
      for (size_t i = 0; i < found.size(); ++i) {
        const size_t position = i / row, column = i % row;
        const bool sees = place == 2 ? position == 21 && column >= 48
                                     : position >= 7 && position < std::min<size_t>(40, 7 + window) && column >= 32 &&
                                           (place == 0 || column % 16 == 3);
        CASE(place, position, column);
        REQUIRE((sees ? std::isnan(found[i]) : found[i] == expected[i]));
      }
    }
  }
}

TEST_CASE("ops: a row's attention has the same bits whatever the chunks of its prompt and what else a pass holds") {
  constexpr size_t kCount = 50;
  constexpr Heads kMore[] = {{2, 2, 24}, {4, 2, 16}, {6, 1, 32}, {4, 2, 10}, {4, 2, 64}, {4, 2, 128}, {4, 2, 144}};
  for (const auto& [kind, heads, format] : grid(devices(), kMore, std::vector{KvFormat::kF32, KvFormat::kBf16})) {
    const bool biased = heads.head_dim != 16;
    std::vector<float> whole;
    for (const auto& [chunk, others] : grid(Sizes{kCount, 7, 1}, kBoth)) {
      CASE(device_name(kind), heads.heads, heads.head_dim, format, chunk, others);
      Setup s(kind, heads, format);
      const AttendTask task = s.task(false, true, biased);
      Known prompt(s.attention, kCount, 1);
      std::vector<float> found;
      for (size_t past = 0; past < kCount; past += chunk) {
        const size_t count = std::min(chunk, kCount - past);
        Known beside(s.attention, 1 + past % 3, 100);
        std::vector<Part> parts{{&prompt, past, count}};
        if (others) parts.insert(parts.begin(), {&beside, 0, beside.count});
        const auto rows = s.run(1, parts, task);
        found.insert(found.end(), rows.end() - static_cast<ptrdiff_t>(count * s.attention.query_width()), rows.end());
        if (others) s.fixture->cache().release(beside.pages);
      }
      if (whole.empty()) whole = found;
      CHECK(same_bits(found, whole));
    }
  }
}

}  // namespace
