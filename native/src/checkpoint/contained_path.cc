#include "checkpoint/contained_path.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/checkpoint_error.h"
#include "core/file.h"

namespace sida {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileName = 255;

bool is_plain_name(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.size() > kMaxFileName) return false;
  return name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

bool lies_in(const fs::path& file, const fs::path& directory) {
  const auto [end, ignored] = std::mismatch(directory.begin(), directory.end(), file.begin(), file.end());
  return end == directory.end();
}

// `…/snapshots/<revision>` of the Hugging Face cache and its directories hold links to `…/blobs`.
bool lies_in_cache(const fs::path& file, const fs::path& directory) {
  for (fs::path revision = directory; revision.has_relative_path(); revision = revision.parent_path()) {
    const fs::path snapshots = revision.parent_path();
    if (snapshots.filename() == "snapshots" && lies_in(file, snapshots.parent_path() / "blobs")) return true;
  }
  return false;
}

}  // namespace

std::string join_path(const std::string& directory, const std::string& name) {
  return (fs::path(directory) / name).string();
}

std::string contained_path(const std::string& directory, const std::string& name) {
  const auto refuse = [&](const std::string& what, const std::string& expected, const std::string& found) {
    throw checkpoint_error(
        {directory, "", what, expected, found, "a checkpoint may only name files beside itself", {}});
  };
  if (!is_plain_name(name)) {
    refuse("bad file name", "a plain file name of this directory", "\"" + escape_text(name) + "\"");
  }
  const std::string path = join_path(directory, name);
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return "";
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error == std::errc::no_such_file_or_directory) return "";
  if (error) refuse("cannot follow \"" + escape_text(name) + "\"", "a file", error.message());
  const fs::path root = fs::canonical(directory, error);
  if (error) refuse("cannot follow the directory", "a directory", error.message());
  if (!lies_in(real, root) && !lies_in_cache(real, root)) {
    refuse("link out of the directory", "\"" + escape_text(name) + "\" inside",
           "\"" + escape_text(real.string()) + "\"");
  }
  if (::stat(real.c_str(), &status) != 0) return "";
  if (!S_ISREG(status.st_mode)) {
    refuse("bad file", "\"" + escape_text(name) + "\" to be a regular file", file_kind(status.st_mode));
  }
  return real.string();
}

}  // namespace sida
