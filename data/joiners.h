// How rows become batches, and batches rows: for tensors only, whatever contains them (element.h).
#pragma once
#include <memory>

#include "rill/data/element.h"
#include "rill/data/options.h"
#include "rill/data/stage.h"

#pragma GCC visibility push(default)

namespace rill::data::detail {

// Tensors of one shape and dtype along a new first axis: stacking(), in element.h.
// The same of tensors that are padded to one shape.
std::shared_ptr<const Joiner> padding(const PaddedBatchOptions& options, const Where& where);

void check_buckets(const BucketOptions& options, const Where& where);
int64_t bucket_of(int64_t length, const std::vector<int64_t>& bounds);

// The size of the tensors' first axes, which must be one.
int64_t rows_of(const std::vector<Tensor>& tensors, const char* op);
Tensor row_of(const Tensor& t, int64_t i);
// The rows of each that belong to worker `index` of `count`.
void cut_rows(std::vector<Tensor>& tensors, int64_t count, int64_t index);
// Those rows of each, stacked.
std::vector<Tensor> rows_at(const std::vector<Tensor>& tensors, const std::vector<int64_t>& indices);
// Throws for a dataset without an end.
void require_end(const Stage& stage, const char* what, const Where& where);

}  // namespace rill::data::detail

#pragma GCC visibility pop
