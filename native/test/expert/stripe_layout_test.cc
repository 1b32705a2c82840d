#include "expert/stripe_layout.h"

#include "support/test.h"

namespace {

TEST_CASE("stripe layout: one file holds the blocks by id, under the name of old packs") {
  const StripeLayout layout({}, 10, 8192);
  CHECK(expert_file_name({}, 0) == "experts.sida");
  CHECK(expert_file_name({2, ""}, 1) == "experts.sida.1");
  CHECK(layout.file_bytes(0) == 10 * 8192);
  CHECK(layout.place(7).file == 0);
  CHECK(layout.place(7).offset == 7 * 8192);
}

TEST_CASE("stripe layout: every block has a place of its own, and files hold as many as lie in them") {
  for (const auto& [files, experts] : grid(Sizes{1, 2, 3, 5, 64}, Sizes{1, 4, 17, 96})) {
    const StripeLayout layout({files, "a pack"}, experts, 4096);
    std::set<std::pair<size_t, uint64_t>> places;
    std::vector<uint64_t> ends(files);
    for (ExpertId id = 0; id < experts; ++id) {
      const auto [file, offset] = layout.place(id);
      REQUIRE(file < files);
      places.insert({file, offset});
      ends[file] = std::max(ends[file], offset + 4096);
    }
    CHECK(places.size() == experts);
    for (size_t file = 0; file < files; ++file) CHECK(layout.blocks_end(file) == ends[file]);
  }
}

TEST_CASE("stripe layout: a number of files out of range is refused with the number") {
  for (const size_t files : {0, 65}) {
    const auto numbers = numbers_of([&] { StripeLayout({files, ""}, 4, 4096); }, "invalid_request");
    CHECK(numbers.at("stripes") == static_cast<double>(files));
  }
}

}  // namespace
