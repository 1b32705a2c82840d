#include "spec/families/decoder_tensors.h"
#include "spec/families/olmoe/olmoe.h"

namespace sida {

constexpr Family kOlmoe{"olmoe", read_olmoe_config, decoder_source, owns_decoder_tensor, &kOlmoeGguf};

}  // namespace sida
