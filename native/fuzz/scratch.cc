#include "scratch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/error.h"

namespace sida::fuzzing {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestMessage = 2048;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

}  // namespace

Scratch::Scratch() {
  // In memory where possible, because a fuzzer writes thousands of files a second.
  const fs::path memory = "/dev/shm";
  const fs::path root = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  std::string pattern = (root / "sida-fuzz-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) give_up("no directory for the fuzzer's files");
  path_ = pattern;
}

Scratch::~Scratch() { fs::remove_all(path_); }

void Scratch::write(const std::string& name, std::string_view bytes) const {
  const int fd = ::open(at(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  require(fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
          "a file of the fuzzer could be written");
  ::close(fd);
}

void expect_clean(const std::function<void()>& read) {
  static const std::set<std::string> kCodes{"checkpoint_invalid", "pack_invalid", "io_error", "budget_too_small"};
  try {
    read();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (!kCodes.contains(error.code())) give_up("error of code " + error.code() + ": " + message);
    if (message.find('\n') != std::string::npos) give_up("a message of several lines: " + message);
    if (message.size() > kLongestMessage) give_up("a message too long for a log: " + message);
  }
}

void require(bool holds, const char* what) {
  if (!holds) give_up(std::string("does not hold: ") + what);
}

}  // namespace sida::fuzzing
