#include <algorithm>
#include <utility>
#include <vector>

#include "ops/cuda/gemm.h"
#include "ops/cuda/gemm_kernels.h"

namespace sida::cuda {
namespace {

/// Up to this many rows the time of a product is that of reading its weights.
constexpr uint32_t kFewRows = 16;
/// Up to this many rows a product's last block can do what is done to them.
constexpr uint32_t kEndRows = 8;
/// With fewer blocks than this, so much of the device would be idle that the few-rows kernel is faster.
constexpr size_t kBusyBlocks = 64;

bool in_vectors(const float* rows, size_t stride) {
  return reinterpret_cast<uintptr_t>(rows) % 16 == 0 && stride % 4 == 0;
}

void add(GemmArguments& t, const Product& product, size_t y_stride) {
  const auto n = static_cast<uint32_t>(product.w.n);
  const uint32_t stride = y_stride == 0 ? n : static_cast<uint32_t>(y_stride);
  t.products[t.count++] = {product.x, product.gather,         product.w.data, product.w.bias,
                           product.y, product.gather_divisor, product.rows,   n,
                           stride};
  t.max_rows = std::max(t.max_rows, product.rows);
  t.max_n = std::max(t.max_n, n);
  t.x_vectors = t.x_vectors && in_vectors(product.x, t.x_stride);
  t.y_vectors = t.y_vectors && in_vectors(product.y, stride);
}

/// Arguments without products.
GemmArguments arguments_of(const PanelMatrix& w, const GemmShape& shape) {
  GemmArguments t{};
  t.x_stride = shape.x_stride;
  t.panel_stride = panel_stride(w.k, w.format);
  t.k = static_cast<uint32_t>(w.k);
  t.epilogue = shape.epilogue;
  t.x_vectors = t.y_vectors = true;
  return t;
}

ptrdiff_t bytes_between(const void* from, const void* to) {
  return static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from));
}

GateOffsets gate_offsets(const Product& product) {
  return {bytes_between(product.w.data, product.gate.data), bytes_between(product.w.bias, product.gate.bias)};
}

/// Whether one launch can sum all gates with the weights: they have their type, and the same place from them.
bool gates_alike(std::span<const Product> products) {
  const GateOffsets first = gate_offsets(products.front());
  return std::ranges::all_of(products, [&](const Product& product) {
    const PanelMatrix &w = product.w, &gate = product.gate;
    const GateOffsets own = gate_offsets(product);
    return gate.format.type == w.format.type && gate.format.group == w.format.group &&
           (gate.bias == nullptr) == (w.bias == nullptr) && own.weights == first.weights && own.bias == first.bias;
  });
}

/// Two launches: x·gate goes to y; then the epilogue of x·W reads it there.
void gates_first(std::span<const Product> products, const GemmShape& shape, cudaStream_t stream) {
  std::vector<Product> part(products.begin(), products.end());
  for (Product& product : part) product.w = std::exchange(product.gate, {});
  gemm(part, {shape.x_stride, shape.y_stride, Epilogue::kStore}, stream);
  for (size_t i = 0; i < part.size(); ++i) part[i].w = products[i].w;
  gemm(part, shape, stream);
}

}  // namespace

void gemm(std::span<const Product> products, const GemmShape& shape, cudaStream_t stream) {
  if (products.empty()) return;
  const PanelMatrix& w = products.front().w;
  const bool gated = products.front().gate.data != nullptr;
  if (gated && !gates_alike(products)) return gates_first(products, shape, stream);
  const bool f32 = w.format.type == WeightType::kF32;
  GemmArguments few = arguments_of(w, shape), many = few;
  for (const Product& product : products) {
    if (product.rows > 0) add(f32 || product.rows <= kFewRows ? few : many, product, shape.y_stride);
  }
  if (many.count > 0 && many_rows_blocks(many) < kBusyBlocks) {
    for (const Product& product : products) {
      if (product.rows > kFewRows) add(few, product, shape.y_stride);
    }
    many.count = 0;
  }
  if (gated && many.count > 0) return gates_first(products, shape, stream);
  few.gated = gated;
  if (gated) few.gate = gate_offsets(products.front());
  if (few.count > 0) f32 ? gemm_f32(few, stream) : gemm_few_rows(w.format, few, stream);
  if (many.count > 0) gemm_many_rows(w.format, many, stream);
}

void gemm(const Product& product, Epilogue epilogue, const GemmEnd& end, cudaStream_t stream) {
  const PanelMatrix& w = product.w;
  const size_t rows = product.rows;
  if (rows == 0) return;
  if (rows <= kEndRows) {
    GemmArguments few = arguments_of(w, {w.k, 0, epilogue});
    add(few, product, 0);
    few.ends = true;
    few.end = end;
    return w.format.type == WeightType::kF32 ? gemm_f32(few, stream) : gemm_few_rows(w.format, few, stream);
  }
  gemm({&product, 1}, {w.k, 0, epilogue}, stream);
  if (end.normed != nullptr) return norm(product.y, end.norm, rows, w.n, end.normed, stream);
  choose(product.y, rows, w.n, end.router, end.expert, end.alpha, stream);
}

void gemm(const ListedProducts& products, const GemmShape& shape, cudaStream_t stream) {
  GemmArguments t = arguments_of(products.form, shape);
  t.list = products.list;
  t.count = products.most;
  t.max_rows = products.most_rows;
  t.max_n = static_cast<uint32_t>(products.form.n);
  t.gated = products.gate.has_value();
  if (t.gated) t.gate = *products.gate;
  t.x_vectors = products.x_vectors;
  t.y_vectors = products.y_vectors;
  const WeightFormat format = products.form.format;
  format.type == WeightType::kF32 ? gemm_f32(t, stream) : gemm_few_rows(format, t, stream);
}

}  // namespace sida::cuda
