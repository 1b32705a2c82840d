#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace sida::testing {

inline std::string repo() { return SIDA_REPO_DIR; }

/// Reference data beside the repository; empty when it is not there.
inline std::string shared_dir() {
  const std::string path = repo() + "/../shared";
  return std::filesystem::exists(path) ? path : "";
}

/// Oracle fixtures: the bundled ones of the repository, or the full set beside it.
inline std::string fixture(const std::string& name) {
  const std::string bundled = repo() + "/test/fixtures/" + name;
  if (std::filesystem::exists(bundled)) return bundled;
  const std::string shared = shared_dir() + "/oracle/fixtures/" + name;
  return std::filesystem::exists(shared) ? shared : "";
}

/// A fresh directory, removed at the end of the scope.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sida-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace sida::testing
