// GradientTape::summary: a table of what a tape recorded and holds.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "rill/autodiff/tape_impl.h"

namespace rill {

namespace {
struct Row {
  size_t calls = 0, bytes = 0;
  size_t most = 0;  // bytes of the call that holds the most, and its line
  Where where;
};
}  // namespace

std::string GradientTape::Impl::summary() const {
  std::set<const Buffer*> seen;
  std::map<std::string_view, Row> rows;
  Row total;
  for (const TapeEntry& e : entries) {
    const size_t bytes = bytes_of(e, seen);
    Row& row = rows[e.op ? e.op->name : "with a rule of its own"];
    if (row.calls == 0 || bytes > row.most) row.most = bytes, row.where = e.where;
    ++row.calls, ++total.calls;
    row.bytes += bytes, total.bytes += bytes;
  }
  std::vector<std::pair<std::string_view, Row>> sorted(rows.begin(), rows.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.bytes != b.second.bytes ? a.second.bytes > b.second.bytes : a.first < b.first;
  });
  std::string text = fmt::format("{:<24} {:>8} {:>14}  {}\n", "op", "calls", "bytes held", "most at");
  for (const auto& [name, row] : sorted)
    text += fmt::format("{:<24} {:>8} {:>14}  {}\n", name, row.calls, row.bytes, row.most ? place_of(row.where) : "");
  return text + fmt::format("{:<24} {:>8} {:>14}\n", "total", total.calls, total.bytes);
}

std::string GradientTape::summary() const { return impl_->summary(); }

}  // namespace rill
