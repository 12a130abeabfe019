// Files of lines and of records, lists of files, and files as a whole. They need librill_io.
#pragma once
#include <optional>

#include "rill/data/dataset.h"
#include "rill/data/files/paths.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct ListFilesOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool shuffle = false;               // otherwise sorted by name
  std::optional<uint64_t> seed = {};  // of that shuffle, as in ShuffleOptions
};
// The paths that patterns match, each a string tensor of one element: * and ? within a name, [abc], {a,b}, ** for
// folders of any depth. Those of one pattern are sorted. Throws where a pattern matches nothing.
Dataset<Tensor> list_files(const Paths& patterns, const ListFilesOptions& options = {}, Where where = Where::current());

// The lines of the files, one after the other, without their ends ("\n" or "\r\n"): string tensors of one element. Files
// may be packed by gzip or zstd; "-" is the standard input. Errors name the file and the byte.
Dataset<Tensor> text_lines(const Paths& paths, Where where = Where::current());

// The records of TFRecord files, one file after the other: string tensors of one element. Files may be compressed by
// zlib, gzip or zstd. parse_examples() and similar functions (rill/serialize/examples.h) parse them:
//
//   data::tfrecords("train-*.tfrecord").batch(64).map([](const Tensor& records) {
//     return parse_examples(records, {{"image", fixed_feature(f32, {28, 28})}}).tensors.at("image");
//   });
Dataset<Tensor> tfrecords(const Paths& paths, Where where = Where::current());

}  // namespace rill::data

namespace rill {

// The bytes of a file, as a string tensor of one element; for several paths in `path`, equally many. Throws
// rill::Error, which names the file, if it cannot be read.
Tensor read_file(const Tensor& path, Where where = Where::current());
// Writes the one string of `bytes` to the file at `path`, atomically.
void write_file(const std::string& path, const Tensor& bytes, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
