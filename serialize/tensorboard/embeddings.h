// The projector's files: vectors, what is known of them, pictures, and projector_config.pbtxt, which lists them.
#pragma once
#include <string>
#include <string_view>

#include "rill/summary.h"

namespace rill::summary {

// Of whom errors speak.
inline constexpr std::string_view writer_op = "summary::Writer";

// Writes an embedding into `folder` and into its configuration, which other Writers of the folder add to as well: of an
// embedding of the same name it takes the place. `vectors` has a real dtype, and options.sprites, if there are any,
// [n,h,w,c].
void write_embedding(const std::string& folder, const std::string& name, const Tensor& vectors,
                     const EmbeddingOptions& options, const Where& where);

}  // namespace rill::summary
