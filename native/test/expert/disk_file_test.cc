// Files of expert blocks: scattered reads, faults, the fallback past O_DIRECT, and measuring.
#include "expert/disk_file.h"

#include <unistd.h>

#include "expert/disk_speed.h"
#include "support/test.h"

namespace {

constexpr uint64_t kFilePage = 4096;

/// Pages filled with their number.
class NumberedPages {
 public:
  explicit NumberedPages(uint32_t pages) : pages_(pages) {
    std::ofstream file(path(), std::ios::binary);
    for (uint32_t page = 0; page < pages; ++page) {
      const std::vector<uint32_t> words(kFilePage / 4, page);
      file.write(reinterpret_cast<const char*>(words.data()), kFilePage);
    }
  }
  std::string path() const { return dir_.path() + "/experts.sida"; }
  uint64_t bytes() const { return pages_ * kFilePage; }

 private:
  TempDir dir_;
  uint32_t pages_;
};

struct Page {
  alignas(4096) uint32_t words[kFilePage / 4];
};

bool holds(const Page& page, uint32_t number) {
  return std::all_of(std::begin(page.words), std::end(page.words), [&](uint32_t word) { return word == number; });
}

TEST_CASE("disk file: one read fills buffers that lie apart") {
  const NumberedPages pages(16);
  DiskFile file(pages.path(), pages.bytes());
  std::vector<Page> out(8);
  iovec buffers[]{{&out[6], kFilePage}, {&out[0], 2 * kFilePage}, {&out[4], kFilePage}};
  file.read(3 * kFilePage, buffers);
  CHECK(holds(out[6], 3));
  CHECK(holds(out[0], 4));
  CHECK(holds(out[1], 5));
  CHECK(holds(out[4], 6));
}

TEST_CASE("disk file: a read past the end names file, offset, expected and found bytes") {
  const NumberedPages pages(8);
  DiskFile file(pages.path(), pages.bytes());
  REQUIRE(truncate(pages.path().c_str(), 5 * kFilePage) == 0);
  std::vector<Page> out(4);
  iovec buffers[]{{&out[0], kFilePage}, {&out[1], 3 * kFilePage}};
  check_error([&] { file.read(3 * kFilePage, buffers); },
              {pages.path(), "expected 16384 bytes at offset 12288", "found 8192", "the file ends there"}, "io_error");
}

TEST_CASE("disk file: a missing file, one of another size and a directory are refused") {
  const NumberedPages pages(8);
  check_error([&] { DiskFile(pages.path() + ".1", 4096); }, {"experts.sida.1", "cannot be opened"}, "io_error");
  check_error([&] { DiskFile(pages.path(), 4096); }, {pages.path(), "expected 4096 bytes, found 32768"},
              "pack_invalid");
  const std::string directory = std::filesystem::path(pages.path()).parent_path();
  check_error([&] { DiskFile(directory, 4096); }, {directory, "expected a regular file, found a directory"},
              "pack_invalid");
}

TEST_CASE("disk file: a read that O_DIRECT refuses goes through the page cache, from many threads at once") {
  const NumberedPages pages(64);
  DiskFile file(pages.path(), pages.bytes());
  std::vector<int> right(4);
  {
    std::vector<std::jthread> readers;
    for (size_t reader = 0; reader < right.size(); ++reader) {
      readers.emplace_back([&, reader] {
        std::vector<Page> out(2);
        // O_DIRECT refuses this address.
        std::byte* crooked = reinterpret_cast<std::byte*>(out.data()) + 1;
        for (uint32_t page = static_cast<uint32_t>(reader); page < 64; page += 4) {
          file.read(page * kFilePage, kFilePage, crooked);
          Page copy;
          std::memcpy(&copy, crooked, kFilePage);
          right[reader] += holds(copy, page);
        }
      });
    }
  }
  CHECK(right == std::vector<int>(4, 16));
  CHECK_FALSE(file.direct());
}

TEST_CASE("disk file: its speed is measured on the file itself, which has to hold one read") {
  const NumberedPages pages(512);
  for (const uint64_t bytes : {kFilePage, 16 * kFilePage, uint64_t{1} << 20}) {
    const DiskSpeed speed = measure_disk_speed(pages.path(), bytes, std::chrono::milliseconds(8));
    CHECK(speed.depth >= 1);
    CHECK(speed.depth <= 8);
    CHECK(speed.bytes_per_second > 0);
    CHECK(speed.best_bytes_per_second >= speed.bytes_per_second);
  }
  check_error([&] { measure_disk_speed(pages.path(), 4 << 20, std::chrono::milliseconds(8)); },
              {pages.path(), "too small"}, "io_error");
}

}  // namespace
