// Reading files, hashes of them, and texts from outside in messages.
#include "core/sha256.h"
#include "support/safetensors_builder.h"
#include "support/test.h"

namespace {

namespace fs = std::filesystem;

TEST_CASE("file: reads are exact or typed errors") {
  const TempDir directory;
  const std::string path = directory.path() + "/f";
  write_file(path, "0123456789");
  File first = File::open(path);
  char out[4];
  first.pread_exact(6, out, 4);
  CHECK(std::string(out, 4) == "6789");
  check_error([&] { first.pread_exact(8, out, 4); }, {"expected 4 bytes at byte 8", "found 2"}, "io_error");
  File second = std::move(first);
  CHECK(first.descriptor() == -1);
  CHECK(second.unchanged());
  fs::create_symlink("f", directory.path() + "/link");
  CHECK_NOTHROW(File::open(directory.path() + "/link"));
  error_of([&] { File::open(directory.path() + "/link", false); }, "io_error");
}

TEST_CASE("error: outside text is escaped and cut") {
  CHECK(escape_text("plain") == "plain");
  CHECK(escape_text(std::string_view("a\0b\n\x1b[31m", 9)) == "a\\u0000b\\u000a\\u001b[31m");
  CHECK(escape_text("\u202egnp") == "\\u202egnp");
  CHECK(escape_text("\U000e0041") == "\\u{e0041}");
  CHECK(escape_text("a\"b\\") == "a\\\"b\\\\");
  CHECK(escape_text("\xff\xc0") == "\\xff\\xc0");
  CHECK(escape_text("schön") == "schön");
  const std::string cut = escape_text(std::string(1 << 20, 'x'));
  CHECK(cut.size() < 160);
  CHECK(cut.find("(1048576 bytes)") != std::string::npos);
}

TEST_CASE("sha256: known answers") {
  const auto sha256 = [](std::string_view text) {
    Sha256 hash;
    hash.update(text);
    return hash.finish();
  };
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
