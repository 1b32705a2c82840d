#include "support/repo_paths.h"

namespace sida::testing {

std::string repo() { return SIDA_REPO_DIR; }

}  // namespace sida::testing
