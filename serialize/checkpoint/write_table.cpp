// Writing a table, by leveldb's TableBuilder; see table.h.
#include "rill/serialize/checkpoint/table.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

namespace rill {
namespace {
class InMemory final : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return {};
  }
  leveldb::Status Close() override { return {}; }
  leveldb::Status Flush() override { return {}; }
  leveldb::Status Sync() override { return {}; }
  std::string bytes;
};
}  // namespace

std::string write_table(const TableEntries& entries, std::string_view op, const Where& where) {
  leveldb::Options options;
  options.compression = leveldb::kNoCompression;  // as TensorFlow's, which older ones can read
  options.block_size = 256 << 10;
  InMemory file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  const leveldb::Status done = builder.Finish();
  if (!done.ok()) fail(op, "the index cannot be made: " + done.ToString(), where);
  return std::move(file.bytes);
}
}  // namespace rill
