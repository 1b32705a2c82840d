// Command-line options of the kernels' benches.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace sida {

struct BenchOptions {
  /// 0: the bench has no such option.
  size_t threads = 0;
  size_t megabytes = 1024;
  size_t rounds = 12;
  std::string only;
  bool json = false;
};

/// Ends the program where an option is unknown.
inline BenchOptions parse_bench_options(int argc, char** argv, BenchOptions options = {}) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--json") {
      options.json = true;
    } else if (i + 1 < argc && name == "--threads" && options.threads > 0) {
      options.threads = std::stoul(argv[++i]);
    } else if (i + 1 < argc && name == "--rounds") {
      options.rounds = std::stoul(argv[++i]);
    } else if (i + 1 < argc && name == "--megabytes") {
      options.megabytes = std::stoul(argv[++i]);
    } else if (i + 1 < argc && name == "--only") {
      options.only = argv[++i];
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

}  // namespace sida
