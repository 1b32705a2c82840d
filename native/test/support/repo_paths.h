#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace sida::testing {

/// The root of the repository.
std::string repo();

/// Reference data beside the repository; empty when it is not there.
inline std::string shared_dir() {
  const std::string path = repo() + "/../shared";
  return std::filesystem::exists(path) ? path : "";
}

/// A folder of further oracle fixtures, of other seeds and shapes, that SIDA_ORACLE_FIXTURES names; empty where it is
/// not set.
inline std::string further_fixtures_dir() {
  const char* const path = std::getenv("SIDA_ORACLE_FIXTURES");
  return path == nullptr ? "" : path;
}

/// The names of the further fixtures, in order.
inline std::vector<std::string> further_fixtures() {
  std::vector<std::string> names;
  if (further_fixtures_dir().empty()) return names;
  for (const auto& entry : std::filesystem::directory_iterator(further_fixtures_dir())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Oracle fixtures: a further one of this name, the bundled ones of the repository, or the full set beside it.
inline std::string fixture(const std::string& name) {
  const std::string further = further_fixtures_dir() + "/" + name;
  if (!further_fixtures_dir().empty() && std::filesystem::exists(further)) return further;
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
