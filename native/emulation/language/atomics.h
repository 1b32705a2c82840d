#pragma once

#include <atomic>
#include <concepts>
#include <type_traits>

// The hardware's atomics order nothing else; these order all, so a missing __threadfence() does not show
// here.

template <class T>
concept AtomicNumber =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;

template <class T>
requires AtomicNumber<T> || std::floating_point<T> T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value);
}

template <AtomicNumber T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_sub(value);
}

template <class T>
requires AtomicNumber<T> || std::same_as<T, float> T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value);
}

template <AtomicNumber T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(expected, value);
  return expected;
}

template <AtomicNumber T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> number(*address);
  T old = number.load();
  while (old < value && !number.compare_exchange_weak(old, value)) {
  }
  return old;
}

template <AtomicNumber T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> number(*address);
  T old = number.load();
  while (value < old && !number.compare_exchange_weak(old, value)) {
  }
  return old;
}

template <AtomicNumber T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_or(value);
}

inline void __threadfence() {}
inline void __threadfence_block() {}
