// What reads files from outside, each fed with one text or file of any bytes. A reader may refuse; it may not
// crash, accept what does not lie in the file, or refuse without a typed error of one short line. Used by the
// fuzzers and by the test that replays the corpus.
#pragma once

#include <string_view>

namespace sida::fuzzing {

/// A safetensors file.
void read_safetensors(std::string_view bytes);
/// A model.safetensors.index.json beside two shards.
void read_index(std::string_view bytes);
/// A config.json, and the layout of a pack of such a model.
void read_config(std::string_view bytes);
/// A pack's manifest.json beside a sound config.json.
void read_manifest(std::string_view bytes);
/// A stripe of a pack's experts: its size and its seal.
void read_stripe(std::string_view bytes);
/// The weights of a small pack, dense and experts: the model is opened and run. The first byte chooses the
/// element types and whether the files are cut to what is given.
void read_weights(std::string_view bytes);
/// A predictor.json without weights.
void read_predictor(std::string_view bytes);

struct Reader {
  const char* name;  ///< of its fuzzer and of its folder in the corpus
  void (*read)(std::string_view bytes);
};

inline constexpr Reader kReaders[] = {
    {"safetensors", read_safetensors}, {"index", read_index},   {"config", read_config},
    {"manifest", read_manifest},       {"stripe", read_stripe}, {"weights", read_weights},
    {"predictor", read_predictor},
};

}  // namespace sida::fuzzing
