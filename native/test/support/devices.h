#pragma once

#include "engine/devices.h"
#include "support/test.h"

namespace sida::testing {

/// What the emulated device does in seconds takes sanitizers minutes, TSan, which follows each thread of a
/// kernel, above all.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kFollowsThreads = true;
#else
inline constexpr bool kFollowsThreads = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = kFollowsThreads;
#endif

/// The devices that the same tests run on: cpu, and cuda where this build and this machine have one.
inline const std::vector<DeviceKind>& devices() {
  static const std::vector<DeviceKind> kinds = [] {
    std::vector<DeviceKind> found{DeviceKind::kCpu};
    const CudaState cuda = cuda_state();
    if (cuda.emulated && kSanitized) {
      MESSAGE("under a sanitizer cuda_engine_test.cc alone runs engines on the emulated device");
    } else if (cuda.devices > 0) {
      found.push_back(DeviceKind::kCuda);
    } else {
      MESSAGE("tests of engines run on the cpu alone: " << cuda.message);
    }
    return found;
  }();
  return kinds;
}

/// Whether `device` is emulated: what a GPU does in a second takes minutes then, so tests take fewer cases.
inline bool emulated(DeviceKind device) { return device == DeviceKind::kCuda && cuda_state().emulated; }

/// Shares of the experts that find room, the resident engine first.
inline std::vector<double> shares_on(DeviceKind device) {
  return emulated(device) || kSanitized ? std::vector<double>{1.0, 0.0} : std::vector<double>{1.0, 0.5, 0.0};
}

inline const char* device_name(DeviceKind device) { return device == DeviceKind::kCpu ? "cpu" : "cuda"; }

}  // namespace sida::testing
