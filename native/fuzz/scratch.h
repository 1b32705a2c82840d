#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sida::fuzzing {

/// A directory of this process, removed when it ends.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  /// Replaces the content of a file.
  void write(const std::string& name, std::string_view bytes) const;

 private:
  std::string path_;
};

/// Runs a reader. What it throws must be an error about the file: typed, one line, not longer than fits a
/// log. Ends the process otherwise.
void expect_clean(const std::function<void()>& read);

/// Ends the process, naming what does not hold.
void require(bool holds, const char* what);

}  // namespace sida::fuzzing
