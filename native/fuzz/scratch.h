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

/// Runs a reader. Ends the process unless the reader returns or throws a typed error about the file, of one line that
/// fits a log.
void expect_clean(const std::function<void()>& read);

/// Ends the process with `what` unless `holds`.
void require(bool holds, const char* what);

}  // namespace sida::fuzzing
