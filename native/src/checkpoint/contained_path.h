#pragma once

#include <string>

namespace sida {

/// The real path of a file of a checkpoint directory, links followed. It lies inside the directory, or among the blobs
/// of the Hugging Face cache where the directory lies in a snapshot of it. Empty where there is no such file. Throws
/// checkpoint_invalid where `name` is no plain file name, its link leads out or in a circle, or it is no regular file.
std::string contained_path(const std::string& directory, const std::string& name);

/// `directory/name`, for messages and for opening.
std::string join_path(const std::string& directory, const std::string& name);

}  // namespace sida
