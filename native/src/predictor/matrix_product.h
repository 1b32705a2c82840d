#pragma once

#include <cstddef>
#include <initializer_list>
#include <new>
#include <vector>

#include "spec/epilogue.h"
#include "weights/panels.h"

namespace sida {

template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* data, size_t) { ::operator delete(data, kLine); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

/// Floats that begin on a cache line, as panels must.
using AlignedFloats = std::vector<float, CacheLineAllocator<float>>;

/// Makes room for at least `count` floats and keeps the contents, so that a buffer that is reused is zeroed only once.
inline float* grow(AlignedFloats* buffer, size_t count) {
  if (buffer->size() < count) buffer->resize(count);
  return buffer->data();
}

/// y (rows, w.n) = epilogue(x (rows, w.k) · W) on the calling thread. Strides in floats. Each output is one
/// chain of fused multiply-adds over k, or with int8 weights the exact sum of products with x rounded to int8, so a
/// row's bits do not depend on the rows beside it.
void multiply(const float* x, size_t x_stride, size_t rows, const PanelMatrix& w, float* y, size_t y_stride,
              Epilogue epilogue);

/// Packs m, (n, k) row-major, as f32 or int8: multiply() then gives x · mᵀ.
PanelMatrix pack_transposed(const float* m, size_t n, size_t k, AlignedFloats* out, WeightFormat format = kF32Format);
/// Packs m, (k, n) with rows `stride` apart: multiply() then gives x · m.
PanelMatrix pack_rows(const float* m, size_t stride, size_t k, size_t n, AlignedFloats* out);

/// One factor of a weight gradient: x (rows, width), rows `stride` apart, and the gradient that the product is added
/// to.
struct GradientTerm {
  const float* x;
  size_t stride;
  size_t width;
  float* gradient;  ///< (n, width)
};

struct ProductScratch {
  AlignedFloats transposed;
  AlignedFloats panels;
};

/// gradient (n, width) += dyᵀ · x for each term. dy is (rows, n), its rows `dy_stride` apart.
void add_weight_gradients(const float* dy, size_t dy_stride, size_t rows, size_t n,
                          std::initializer_list<GradientTerm> terms, ProductScratch* scratch);

/// sums (n) += the rows of dy (rows, n), first to last.
void add_rows(const float* dy, size_t dy_stride, size_t rows, size_t n, float* sums);

}  // namespace sida
