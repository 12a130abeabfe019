// Arrays in files as rows along their first axes. They are mapped: read from the disk where they are touched, and may be
// larger than memory. All can be indexed, so that shuffles are exact and resuming costs nothing. They need librill_io.
//
//   auto train = data::npz<Example>("train.npz").shuffle({.seed = 1}).batch(64);  // struct Example { Tensor x, y; };
#pragma once
#include <string>
#include <vector>

#include "rill/data/files/paths.h"
#include "rill/data/files/rows.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct ArrayOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // Which arrays, in this order: of a Table; or for the fields of a row, one for each, whatever these are called.
  std::vector<std::string> names = {};
};

namespace detail {
StagePtr npz_stage(const std::string& path, const ArrayOptions& options, RowMaker maker, const Where& where);
StagePtr safetensors_stage(const std::string& path, const ArrayOptions& options, RowMaker maker, const Where& where);
}  // namespace detail

// The rows of .npy files, one file after the other; their rows have one shape and dtype. Either byte order, C and Fortran
// order, numbers and strings. Throws rill::Error where a file is none, damaged or a scalar.
Dataset<Tensor> npy(const Paths& paths, Where where = Where::current());

// The rows of the arrays of a .npz file side by side: as Tables of one row, structs or tuples (rows.h); all arrays must
// have the same number. Compressed members (numpy.savez_compressed) are decompressed into memory. Checksums of mapped
// members are not verified.
template <class Row = Table>
Dataset<Row> npz(const std::string& path, const ArrayOptions& options = {}, Where where = Where::current()) {
  return Dataset<Row>(detail::npz_stage(path, options, detail::row_maker<Row>(), where));
}
// The same of a .safetensors file.
template <class Row = Table>
Dataset<Row> safetensors(const std::string& path, const ArrayOptions& options = {}, Where where = Where::current()) {
  return Dataset<Row>(detail::safetensors_stage(path, options, detail::row_maker<Row>(), where));
}

// The rows of IDX files (MNIST's), one file after the other, gzipped or not. Each is read into memory as a whole:
//
//   auto digits = data::zip(data::idx("train-images-idx3-ubyte.gz"), data::idx("train-labels-idx1-ubyte.gz"));
Dataset<Tensor> idx(const Paths& paths, Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
