// The inputs that the fuzzers keep: those that failed once, and those that reach the most of each reader's code.
// native/fuzz/corpus has one archive a reader.
#include "readers.h"
#include "spec/families/family.h"
#include "spec/model_config.h"
#include "support/tar_file.h"

namespace {

TEST_CASE("fuzz corpus: every reader takes or refuses every file of it cleanly") {
  for (const fuzzing::Reader& reader : fuzzing::kReaders) {
    const auto inputs = read_tar(repo() + "/native/fuzz/corpus/" + reader.name + ".tar");
    CHECK_MESSAGE(!inputs.empty(), reader.name);
    for (const auto& [name, bytes] : inputs) {
      // A promise that a reader breaks ends the process. The name printed last is then the input.
      CASE(reader.name, name);
      reader.read(bytes);
    }
  }
}

TEST_CASE("fuzz corpus: a config of every family is accepted, so that fuzzers begin with all of its fields") {
  std::set<std::string> accepted;
  for (const auto& [name, bytes] : read_tar(repo() + "/native/fuzz/corpus/config.tar")) {
    try {
      accepted.insert(parse_model_config(bytes, "config.json").family->model_type);
    } catch (const Error&) {
    }
  }
  for (const Family* family : families()) {
    CHECK_MESSAGE(accepted.contains(family->model_type), family->model_type);
  }
}

}  // namespace
