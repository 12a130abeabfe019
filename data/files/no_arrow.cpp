// A build without the arrow feature; see arrow.h.
#include "rill/data/files/arrow.h"

namespace rill::data {

StagePtr detail::arrow_stage(const Paths&, const ArrowRowOptions&, RowMaker, const Where& where) {
  fail("data::arrow", "this build of rill has no Arrow: it lacks the feature arrow (flatbuffers, liblz4, libzstd)",
       where);
}

StagePtr detail::parquet_stage(const Paths&, const ArrowRowOptions&, RowMaker, const Where& where) {
  fail("data::parquet", "this build of rill has no Parquet: it lacks the feature arrow, which that is read through",
       where);
}

}  // namespace rill::data
