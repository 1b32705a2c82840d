#include "support/repo_paths.h"

namespace sida::testing {

std::string repo() { return SIDA_REPO_DIR; }

std::string unpacked_fixtures() { return SIDA_FIXTURES_DIR; }

}  // namespace sida::testing
