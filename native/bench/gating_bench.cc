// A MoE layer gated dynamically, as the engine does it (counting sort, only experts with tokens), and
// statically, as DeepSpeed-MoE and Fairseq do it (every expert computes `capacity` rows, padded with zeros):
// time and memory on given routes. What the static way is spared here: tokens are copied to their rows, not
// multiplied by a one-hot mask.
//   gating_bench ROUTES k experts d_model d_ff f32|bf16 threads repeats batch,batch,… factor,factor,…
// ROUTES holds uint16 (tokens, k). Prints a line of JSON for each batch size. A factor of 0 stands for the
// least capacity that drops no token.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "device/backend.h"
#include "machine_limits.h"
#include "ops/cpu/linear.h"
#include "ops/dispatch.h"

namespace {

using namespace sida;

struct Shape {
  size_t k, experts, d, ff;
  WeightFormat format;
};

std::vector<double> numbers(const std::string& text) {
  std::vector<double> values;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) values.push_back(std::stod(part));
  return values;
}

std::vector<uint16_t> read_routes(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<uint16_t> routes(bytes.size() / 2);
  std::memcpy(routes.data(), bytes.data(), routes.size() * 2);
  return routes;
}

/// One MoE layer of one machine: weights of all experts, and both ways through them.
class Layer {
 public:
  Layer(const Shape& shape, size_t threads)
      : shape_(shape),
        pool_(threads),
        backend_(make_cpu_backend()),
        wi_bytes_(panel_matrix_bytes(shape.ff, shape.d, shape.format)),
        wo_bytes_(panel_matrix_bytes(shape.d, shape.ff, shape.format)) {
    arena_bytes_ = shape.experts * (wi_bytes_ + wo_bytes_) + 8192;
    arena_ = backend_->allocate(arena_bytes_);
    std::vector<float> row(shape.ff * shape.d);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i * 2654435761 % 2001) / 1e5f - 0.01f;
    pack_panels(row.data(), shape.ff, shape.d, shape.format, arena_);
    pack_panels(row.data(), shape.d, shape.ff, shape.format, arena_ + wi_bytes_);
    // The same numbers at other addresses: times depend on the bytes' place, not on their values.
    for (size_t e = 1; e < shape.experts; ++e) {
      std::memcpy(arena_ + e * (wi_bytes_ + wo_bytes_), arena_, wi_bytes_ + wo_bytes_);
    }
  }
  ~Layer() { backend_->deallocate(arena_, arena_bytes_); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  /// out (tokens, d) += alpha · E(x) over the choices. Returns the bytes of the buffers it needed.
  size_t dynamic(const float* x, std::span<const uint16_t> routes, std::span<const float> alpha, size_t tokens,
                 float* out) {
    const SequenceSpan all{0, tokens, 0, nullptr};
    choose_predicted({routes, alpha, shape_.k}, 0, tokens, 1, dispatch_);
    sort_choices(shape_.experts, tokens * shape_.k, {&all, 1}, dispatch_);
    const Dispatch& dispatch = dispatch_;
    size_t most = 0;
    for (const uint16_t e : dispatch.needed) most = std::max<size_t>(most, dispatch.begin[e + 1] - dispatch.begin[e]);
    const size_t choices = dispatch.order.size(), d = shape_.d;
    grow(in_, most * d);
    grow(hidden_, most * shape_.ff);
    grow(result_, choices * d);
    for (const uint16_t e : dispatch.needed) {
      const size_t begin = dispatch.begin[e], rows = dispatch.begin[e + 1] - begin;
      for (size_t i = 0; i < rows; ++i) {
        std::memcpy(in_.data() + i * d, x + dispatch.order[begin + i] / shape_.k * d, d * sizeof(float));
      }
      expert(e, in_.data(), rows, result_.data() + begin * d);
    }
    for (size_t i = 0; i < choices; ++i) {
      const size_t choice = dispatch.order[i];
      cpu_kernels().axpy(dispatch.alpha[choice], result_.data() + i * d, d, out + choice / shape_.k * d);
    }
    return (most * (d + shape_.ff) + choices * d) * sizeof(float);
  }

  /// The same with `capacity` rows for every expert; `dropped` counts choices beyond it.
  size_t padded(const float* x, std::span<const uint16_t> routes, std::span<const float> alpha, size_t tokens,
                size_t capacity, float* out, size_t* dropped) {
    const size_t d = shape_.d, rows = shape_.experts * capacity;
    grow(in_, rows * d);
    grow(hidden_, capacity * shape_.ff);
    grow(result_, rows * d);
    place_.assign(tokens * shape_.k, SIZE_MAX);
    taken_.assign(shape_.experts, 0);
    std::memset(in_.data(), 0, rows * d * sizeof(float));
    *dropped = 0;
    for (size_t choice = 0; choice < tokens * shape_.k; ++choice) {
      const size_t e = routes[choice];
      if (taken_[e] == capacity) {
        ++*dropped;
        continue;
      }
      place_[choice] = e * capacity + taken_[e]++;
      std::memcpy(in_.data() + place_[choice] * d, x + choice / shape_.k * d, d * sizeof(float));
    }
    for (size_t e = 0; e < shape_.experts; ++e) {
      expert(e, in_.data() + e * capacity * d, capacity, result_.data() + e * capacity * d);
    }
    // By expert, as the dynamic way adds: the sums must be the same bits.
    for (size_t e = 0; e < shape_.experts; ++e) {
      for (size_t choice = 0; choice < tokens * shape_.k; ++choice) {
        if (routes[choice] != e || place_[choice] == SIZE_MAX) continue;
        cpu_kernels().axpy(alpha[choice], result_.data() + place_[choice] * d, d, out + choice / shape_.k * d);
      }
    }
    return (rows * 2 * d + capacity * shape_.ff) * sizeof(float);
  }

 private:
  static void grow(std::vector<float>& buffer, size_t floats) {
    if (buffer.size() < floats) buffer.resize(floats);
  }

  void expert(size_t e, const float* x, size_t rows, float* y) {
    const std::byte* block = arena_ + e * (wi_bytes_ + wo_bytes_);
    linear(pool_, x, shape_.d, rows, {block, shape_.format, shape_.d, shape_.ff}, hidden_.data(), shape_.ff,
           Epilogue::kRelu);
    linear(pool_, hidden_.data(), shape_.ff, rows, {block + wi_bytes_, shape_.format, shape_.ff, shape_.d}, y, shape_.d,
           Epilogue::kStore);
  }

  Shape shape_;
  ThreadPool pool_;
  std::unique_ptr<Backend> backend_;
  size_t wi_bytes_, wo_bytes_, arena_bytes_ = 0;
  std::byte* arena_ = nullptr;
  std::vector<float> in_, hidden_, result_;
  Dispatch dispatch_;
  std::vector<size_t> place_, taken_;
};

template <typename Body>
double milliseconds(Body body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Static {
  double factor;
  std::vector<double> ms, capacity, dropped, bytes;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 11) {
    std::puts("gating_bench ROUTES k experts d_model d_ff f32|bf16 threads repeats batch,batch,… factor,factor,…");
    return argc > 1 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  const auto count = [&](int i) { return static_cast<size_t>(std::atoi(argv[i])); };
  const std::vector<uint16_t> routes = read_routes(argv[1]);
  const Shape shape{count(2), count(3), count(4), count(5),
                    std::strcmp(argv[6], "bf16") == 0 ? kBf16Format : kF32Format};
  Layer layer(shape, count(7));
  for (const double batch : numbers(argv[9])) {
    const auto tokens = static_cast<size_t>(batch);
    const size_t choices = tokens * shape.k, batches = routes.size() / choices;
    if (batches == 0) {
      std::fprintf(stderr, "%zu tokens are more than the routes hold\n", tokens);
      return 1;
    }
    std::vector<float> x(tokens * shape.d), alpha(choices, 0.5f), a(tokens * shape.d), b(tokens * shape.d);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 40503 % 1999) / 1000.0f - 1.0f;
    std::vector<Static> statics;
    for (const double factor : numbers(argv[10])) statics.push_back({factor, {}, {}, {}, {}});
    std::vector<double> dynamic_ms, dynamic_bytes, used, most;
    for (size_t repeat = 0; repeat <= count(8); ++repeat) {
      const std::span<const uint16_t> now(routes.data() + repeat % batches * choices, choices);
      std::vector<size_t> loads(shape.experts);
      for (const uint16_t e : now) ++loads.at(e);
      const size_t max_load = *std::max_element(loads.begin(), loads.end());
      std::fill(a.begin(), a.end(), 0.0f);
      size_t bytes = 0;
      const double ms = milliseconds([&] { bytes = layer.dynamic(x.data(), now, alpha, tokens, a.data()); });
      if (repeat > 0) {
        dynamic_ms.push_back(ms);
        dynamic_bytes.push_back(static_cast<double>(bytes));
        used.push_back(
            static_cast<double>(shape.experts - static_cast<size_t>(std::count(loads.begin(), loads.end(), 0))));
        most.push_back(static_cast<double>(max_load));
      }
      for (Static& each : statics) {
        const double wanted =
            std::ceil(each.factor * static_cast<double>(choices) / static_cast<double>(shape.experts));
        const size_t capacity = each.factor == 0 ? max_load : static_cast<size_t>(wanted);
        std::fill(b.begin(), b.end(), 0.0f);
        size_t dropped = 0, needed = 0;
        const double padded_ms =
            milliseconds([&] { needed = layer.padded(x.data(), now, alpha, tokens, capacity, b.data(), &dropped); });
        if (dropped == 0 && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0) {
          std::fprintf(stderr, "static and dynamic gating differ at %zu tokens\n", tokens);
          return 1;
        }
        if (repeat == 0) continue;
        each.ms.push_back(padded_ms);
        each.capacity.push_back(static_cast<double>(capacity));
        each.dropped.push_back(static_cast<double>(dropped) / static_cast<double>(choices));
        each.bytes.push_back(static_cast<double>(needed));
      }
    }
    std::printf(
        "{\"tokens\": %zu, \"expertsUsed\": %.0f, \"mostTokens\": %.0f, \"dynamicMs\": %.4f, "
        "\"dynamicBytes\": %.0f, \"static\": [",
        tokens, median(used), median(most), median(dynamic_ms), median(dynamic_bytes));
    for (size_t i = 0; i < statics.size(); ++i) {
      const Static& s = statics[i];
      std::printf("%s{\"factor\": %g, \"capacity\": %.0f, \"ms\": %.4f, \"bytes\": %.0f, \"dropped\": %.4f}",
                  i ? ", " : "", s.factor, median(s.capacity), median(s.ms), median(s.bytes), median(s.dropped));
    }
    std::puts("]}");
    std::fflush(stdout);
  }
}
