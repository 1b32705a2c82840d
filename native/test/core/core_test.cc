// Files, hashes, texts in messages; portable functions; the thread pool.
#include <time.h>

#include "core/portable_math.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "support/kernel_sets.h"
#include "support/math_bits.h"
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

// NaNs are equal whatever their bits: no two machines agree on those.
bool same_double(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST_CASE("exp and log have the bits of Math.exp and Math.log") {
  for (const bool log : kBoth) {
    for (const auto& line : math_bits(log ? "log" : "exp")) {
      const double x = double_of_hex(line[0]);
      CASE(log, x);
      CHECK(same_double(log ? portable_log(x) : portable_exp(x), double_of_hex(line[1])));
    }
  }
  CHECK(std::isnan(portable_log(-1)));
  CHECK(std::isnan(portable_log(-INFINITY)));
}

TEST_CASE("every kernel set's exp of many has the bits of exp") {
  std::mt19937_64 random(1);
  std::vector<double> x = {0, -0.0, -5e-324, -INFINITY, -0x1p-28, -707};
  for (double reach : {800.0, 40.0, 2.0, 0.35, 1e-7}) {
    std::uniform_real_distribution<double> numbers(-reach, 0);
    for (int i = 0; i < 40000; ++i) x.push_back(numbers(random));
  }
  for (const auto& line : math_bits("exp")) {
    if (const double value = double_of_hex(line[0]); value <= 0) x.push_back(value);
  }
  for (const CpuKernels* kernels : kernel_sets()) {
    CASE(kernels->isa);
    std::vector<double> out = x;
    kernels->exp_nonpositive(out.data(), out.size(), out.data());
    size_t different = 0;
    for (size_t i = 0; i < x.size(); ++i) different += same_double(out[i], portable_exp(x[i])) ? 0 : 1;
    CHECK(different == 0);
  }
}

TEST_CASE("thread pool: runs every task of every loop exactly once") {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (size_t loop = 0; loop < 3000; ++loop) {
      const size_t tasks = loop == 999 ? (1u << 20) + 5 : loop % 37;
      std::vector<int> runs(tasks);
      pool.parallel_for(tasks, [&](size_t task, size_t thread) { runs[task] += thread < threads ? 1 : 2; });
      REQUIRE(std::count(runs.begin(), runs.end(), 1) == static_cast<long>(tasks));
    }
  }
}

TEST_CASE("thread pool: workers without a loop leave the cores to others") {
  ThreadPool pool(4);
  pool.parallel_for(64, [](size_t, size_t) {});
  const auto processor_time = [] {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  };
  const double before = processor_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // A worker that spun all the while would take 0.3 s, three of them on one core together as much.
  CHECK(processor_time() - before < 0.1);
}

}  // namespace
