// librill_parquet: Parquet files by Apache Arrow's libparquet, whose record batches are handed over as bytes of an Arrow
// stream, which rill reads itself. librill_data opens it when a Parquet file is first read, so that nothing else loads
// those libraries; what crosses is C (plug_in.h).
#include "rill/serialize/parquet/plug_in.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace {

struct File {
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::vector<int> columns;  // leaves
  std::unique_ptr<arrow::RecordBatchReader> batches;
  std::shared_ptr<arrow::Buffer> bytes;
  std::string error;
};

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}
template <class T>
T check(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

// Runs f, and keeps what it throws as a text.
template <class F>
int guarded(File& file, F&& f) {
  try {
    return f();
  } catch (const std::exception& e) {
    file.error = e.what();
  } catch (...) {
    file.error = "an exception that is no std::exception";
  }
  return -1;
}

// The leaves of the columns named; all where none is.
std::vector<int> leaves_of(const parquet::arrow::FileReader& reader, const char* const* names, int count) {
  const parquet::SchemaDescriptor& schema = *reader.parquet_reader()->metadata()->schema();
  std::vector<int> leaves;
  for (int c = 0; c < schema.num_columns(); ++c) {
    const std::string name = schema.GetColumnRoot(c)->name();
    bool wanted = count == 0;
    for (int i = 0; i < count; ++i) wanted |= name == names[i];
    if (wanted) leaves.push_back(c);
  }
  return leaves;
}

void open_file(File& file, const char* path, const char* const* columns, int count, int64_t batch_rows) {
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(check(arrow::io::ReadableFile::Open(path))));
  parquet::ArrowReaderProperties properties;
  properties.set_use_threads(false);
  properties.set_batch_size(batch_rows);
  builder.properties(properties);
  file.reader = check(builder.Build());
  file.columns = leaves_of(*file.reader, columns, count);
}

int read_batch(File& file) {
  std::shared_ptr<arrow::RecordBatch> batch;
  check(file.batches->ReadNext(&batch));
  if (!batch) return 0;
  const auto sink = check(arrow::io::BufferOutputStream::Create());
  const auto writer = check(arrow::ipc::MakeStreamWriter(sink, batch->schema()));
  check(writer->WriteRecordBatch(*batch));
  check(writer->Close());
  file.bytes = check(sink->Finish());
  return 1;
}

}  // namespace

extern "C" {

extern const char rill_parquet_version[];
const char rill_parquet_version[] = RILL_VERSION;

void* rill_parquet_open(const char* path, const char* const* columns, int count, int64_t batch_rows) {
  auto* file = new File;
  guarded(*file, [&] { return open_file(*file, path, columns, count, batch_rows), 0; });
  return file;
}
void rill_parquet_close(void* f) { delete static_cast<File*>(f); }
const char* rill_parquet_error(void* f) { return static_cast<File*>(f)->error.c_str(); }
int rill_parquet_groups(void* f) { return static_cast<File*>(f)->reader->num_row_groups(); }
int64_t rill_parquet_rows(void* f, int group) {
  return static_cast<File*>(f)->reader->parquet_reader()->metadata()->RowGroup(group)->num_rows();
}
int rill_parquet_begin(void* f, int group) {
  auto& file = *static_cast<File*>(f);
  return guarded(file, [&] {
    file.batches = check(file.reader->GetRecordBatchReader({group}, file.columns));
    return 1;
  });
}
int rill_parquet_next(void* f, const char** bytes, int64_t* size) {
  auto& file = *static_cast<File*>(f);
  const int found = guarded(file, [&] { return read_batch(file); });
  if (found != 1) return found;
  *bytes = reinterpret_cast<const char*>(file.bytes->data());
  *size = file.bytes->size();
  return 1;
}
}
