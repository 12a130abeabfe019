// Everything on a device whose memory the host cannot touch: kernels, copies, tapes, traces, control flow. The results
// have the bits of ref:0, whose kernels it runs.
#include "guarded_device.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/rill.h"
#include "same.h"

using namespace record_samples;
using op_check::run;

namespace {

const bool added = (guarded_device::add(), true);

Inputs to(const Inputs& in, Device d) {
  Inputs out;
  for (const Tensor& t : in) out.push_back(t.to(d));
  return out;
}
// Nothing of rill's has read or written the device's memory but the driver.
void check_untouched() {
  for (const std::string& place : guarded_device::touched()) FAIL_CHECK(place);
}

}  // namespace

TEST_CASE("every record") {
  int count = 0;
  for_each_op([&](const Op& op) {
    if (op.name == "transfer") return;
    for (const Sample& s : op.samples())
      for (int d = 0; d < dtype_count; ++d) {
        if (DType(d) == rill::string || main_dtype(s) == rill::string) continue;  // strings live on the host
        const auto in = in_dtype(op, s, DType(d));
        if (!in) continue;
        INFO(op_check::describe(op, *in, s.attrs));
        const WithDevice here("gpu:0");
        const Inputs want = run(op, to(*in, "ref:0"), s.attrs), is = run(op, to(*in, "gpu:0"), s.attrs);
        for (size_t k = 0; k < want.size(); ++k) {
          if (!in->empty()) CHECK(is[k].device() == Device("gpu:0"));  // else an attribute says where
          CHECK(same(is[k].to("cpu:0"), want[k].to("cpu:0")));
        }
        check_untouched();
        ++count;
      }
  });
  CHECK(count > 1000);
}
