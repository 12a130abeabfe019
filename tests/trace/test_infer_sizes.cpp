// The sizes that infer rules give of open ones: expressions that hold for other sizes, and plain numbers where nothing
// open was computed with. What traces make of them is in test_open_sizes.cpp.
#include "catch.h"
#include "rill/ops/op.h"
#include "rill/ops/stored_ops.h"
#include "rill/rill.h"
#include "rill/tensor/dim_table.h"

using namespace rill;

namespace {

// The specs of a sample's operands, with `n` as the size of one axis of the first and of those that share it.
std::vector<Spec> specs_of(const Sample& sample, size_t axis, Dim n) {
  const Shape& first = sample.in[0].shape();
  std::vector<Spec> specs;
  for (const Tensor& t : sample.in) {
    Spec& s = specs.emplace_back(t.spec());
    if (s.shape.size() == first.size() && s.shape[axis] == first[axis]) s.shape[axis] = n;
  }
  return specs;
}
OutSpecs inferred(const Op& op, const std::vector<Spec>& specs, AttrsView attrs) {
  std::vector<const Spec*> in;
  for (const Spec& s : specs) in.push_back(&s);
  return checked_infer(op, in, attrs);
}

}  // namespace

TEST_CASE("a size that an infer rule does not compute from an open one stays what it is, and others are expressions") {
  size_t seen = 0;
  for (const Op* op : all_ops()) {
    if (!op->samples || op->call) continue;
    for (const Sample& sample : op->samples()) {
      for (size_t axis = 0; !sample.in.empty() && axis < sample.in[0].shape().size(); ++axis) {
        INFO(op->name << " with an open axis " << axis << " of " << to_string(sample.in[0].spec()));
        const int64_t n = sample.in[0].shape()[axis].plain();
        DimTable table;
        const OpenDims open(&table);
        const std::vector<Spec> specs = specs_of(sample, axis, table.add_symbol(n, "n"));
        OutSpecs out;
        bool computed = false;
        try {
          const InferDims infer(table);
          out = inferred(*op, specs, sample.attrs);
          computed = table.computed();
        } catch (const Error&) {  // another operand should have been as long
          continue;
        }
        CHECK(!computed);
        CHECK(table.guards().empty());
        for (int64_t other : {n + 1, n + 2, n + 5}) {
          OutSpecs wanted;
          try {
            wanted = inferred(*op, specs_of(sample, axis, other), sample.attrs);
          } catch (const Error&) {
            continue;
          }
          ++seen;
          const int64_t sizes[] = {other};
          DimValues values(table, sizes, [](const DimTable::Place&) { return std::optional<int64_t>(); });
          for (size_t k = 0; k < out.size(); ++k) {
            REQUIRE(out[k].shape.size() == wanted[k].shape.size());
            for (size_t d = 0; d < out[k].shape.size(); ++d)
              CHECK(values.of(out[k].shape[d]) == wanted[k].shape[d].plain());
          }
        }
      }
    }
  }
  CHECK(seen > 4000);
}
