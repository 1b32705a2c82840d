#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "doctest/doctest.h"

namespace sida::testing {

/// The one-line message of the error that `action` must throw with this code.
inline std::string error_of(const std::function<void()>& action,
                            const std::string& code = "checkpoint_invalid") {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.code() == code);
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  FAIL("accepted");
  return "";
}

/// The message has all the parts.
inline void check_has(const std::string& message, const std::vector<std::string>& parts) {
  CAPTURE(message);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace sida::testing
