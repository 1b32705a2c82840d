#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sida {

/// A typed error. `code` is one of src/errors.ts; `numbers` are the figures behind the message and become the
/// `details` of the JavaScript error.
class Error : public std::runtime_error {
 public:
  Error(std::string code, const std::string& message, std::map<std::string, double> numbers = {});

  const std::string& code() const { return code_; }
  const std::map<std::string, double>& numbers() const { return numbers_; }

 private:
  std::string code_;
  std::map<std::string, double> numbers_;
};

/// Text from outside, fit for one line of a log: control, bidi and other invisible characters and invalid
/// UTF-8 escaped, quotes and backslashes too, cut after `max_bytes` with the length appended.
std::string escape_text(std::string_view text, size_t max_bytes = 120);

}  // namespace sida
