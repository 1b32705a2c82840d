#pragma once

#include "device/cuda/kernel_language.h"
#include "spec/epilogue.h"

// Epilogues and scores of routers with the bits of the CPU's: one IEEE operation each of ops/cpu/exp16_impl.h and
// ops/cpu/tile_impl.h. min and max give their second operand where one is NaN.
namespace sida::cuda {

__device__ inline float second_min(float a, float b) { return a < b ? a : b; }
__device__ inline float second_max(float a, float b) { return a > b ? a : b; }

__device__ inline float portable_exp(float x) {
  constexpr float kLow = -87.0f, kMagic = 12582912.0f;
  const float clamped = second_max(kLow, second_min(88.0f, x));
  const float t = fmaf(clamped, 1.44269504f, kMagic);
  const float n = __fadd_rn(t, -kMagic);
  float r = fmaf(n, -0.693359375f, clamped);
  r = fmaf(n, 2.12194440e-4f, r);
  float p = 1.9875691500e-4f;
  p = fmaf(p, r, 1.3981999507e-3f);
  p = fmaf(p, r, 8.3334519073e-3f);
  p = fmaf(p, r, 4.1665795894e-2f);
  p = fmaf(p, r, 1.6666665459e-1f);
  p = fmaf(p, r, 5.0000001201e-1f);
  const float y = fmaf(__fmul_rn(r, r), p, __fadd_rn(r, 1.0f));
  const float power = __uint_as_float((__float_as_uint(t) << 23) + 0x3f800000U);
  return x < kLow ? 0.0f : __fmul_rn(y, power);
}

/// g / (1 + exp(-t)); 0 where t is far below -88.
__device__ inline float portable_gated(float g, float t) {
  const float quotient = g / __fadd_rn(1.0f, portable_exp(__fadd_rn(0.0f, -t)));
  return t < -87.0f ? 0.0f : quotient;
}

__device__ inline float portable_silu(float g) { return fmaf(g, 0.0f, portable_gated(g, g)); }

__device__ inline float portable_tanh_gelu(float g) {
  const float cube = __fmul_rn(__fmul_rn(g, g), __fmul_rn(g, kGeluCube));
  return fmaf(g, 0.0f, portable_gated(g, __fmul_rn(__fadd_rn(g, cube), kGeluSlope)));
}

__device__ inline float portable_clamped_swiglu(float gate, float up) {
  const float g = fmaf(gate, 0.0f, second_min(kGateLimit, gate));
  const float u = fmaf(up, 0.0f, second_max(-kGateLimit, second_min(kGateLimit, up)));
  return __fmul_rn(portable_gated(g, __fmul_rn(g, kGateSlope)), __fadd_rn(u, 1.0f));
}

__device__ inline float portable_gelu(float x) {
  const float size = second_max(x, __fadd_rn(0.0f, -x));
  const float t = 1.0f / fmaf(size, 0.23164190f, 1.0f);
  float p = 0.5307027145f;
  p = fmaf(p, t, -0.7265760135f);
  p = fmaf(p, t, 0.7107068705f);
  p = fmaf(p, t, -0.142248368f);
  p = fmaf(p, t, 0.127414796f);
  const float tail = __fmul_rn(__fmul_rn(p, t), portable_exp(__fmul_rn(__fmul_rn(x, x), -0.5f)));
  return fmaf(x, 0.0f, __fadd_rn(second_max(0.0f, x), -__fmul_rn(size, tail)));
}

/// NaN where x is not finite.
__device__ inline float portable_sigmoid(float x) {
  return fmaf(x, 0.0f, 1.0f / __fadd_rn(1.0f, portable_exp(__fadd_rn(0.0f, -x))));
}

/// `before`: what y holds.
__device__ inline float portable_output(Epilogue epilogue, float value, float before) {
  switch (epilogue) {
    case Epilogue::kStore:
      break;
    case Epilogue::kRelu:
      return fmaf(value, 0.0f, second_max(0.0f, value));
    case Epilogue::kGelu:
      return portable_gelu(value);
    case Epilogue::kAdd:
      return __fadd_rn(before, value);
    case Epilogue::kSwiglu:
      return __fmul_rn(portable_silu(before), value);
    case Epilogue::kClampedSwiglu:
      return portable_clamped_swiglu(before, value);
    case Epilogue::kGeglu:
      return __fmul_rn(portable_tanh_gelu(before), value);
  }
  return value;
}

}  // namespace sida::cuda
