// Arrow IPC files and streams into tables: finds the schema, the dictionaries and the record batches. The contents of a
// batch: columns.h. Start at read_arrow.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/serialize/arrow.h"
#include "rill/serialize/arrow/batches.h"
#include "rill/serialize/arrow/columns.h"
#include "rill/serialize/records/byte_stream.h"
#include "rill/serialize/tensors/elements.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace arrow {
namespace {

constexpr std::string_view magic = "ARROW1", old_feather = "FEA1";
constexpr uint32_t continuation = 0xFFFFFFFF;

// A flatbuffer that has been verified; its bytes are aligned as its reader needs.
template <class T>
class Checked {
 public:
  Checked(std::string_view bytes, const char* what, const Source& source) : words_(bytes.size() / 8 + 1) {
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    const auto* start = reinterpret_cast<const uint8_t*>(words_.data());
    flatbuffers::Verifier verifier(start, bytes.size());
    if (bytes.size() < 8 || !verifier.VerifyBuffer<T>(nullptr))
      source.reject(fmt::format("{} of {} bytes is damaged", what, bytes.size()));
    root_ = flatbuffers::GetRoot<T>(start);
  }
  const T* operator->() const { return root_; }

 private:
  std::vector<uint64_t> words_;
  const T* root_;
};

struct Message {
  Checked<format::Message> meta;
  std::string_view body;
};

// The message at `at`, which is moved past it; nothing at the end of the stream.
std::optional<Message> next_message(std::string_view bytes, size_t& at, const Source& source) {
  const auto number = [&]() -> uint32_t {
    if (bytes.size() - at < 4) source.reject(fmt::format("at byte {}: the length of a message is cut", at));
    at += 4;
    return little_endian<uint32_t>(bytes.data() + at - 4);
  };
  if (at == bytes.size()) return {};
  const size_t start = at;
  uint32_t length = number();
  if (length == continuation) length = number();  // files from before Arrow 0.15 have no continuation marker
  if (length == 0) return {};
  if (length > bytes.size() - at) source.reject(fmt::format("at byte {}: a message of {} bytes is cut", start, length));
  Checked<format::Message> meta(bytes.substr(at, length), "a message", source);
  at += length;
  if (meta->body_length() < 0 || uint64_t(meta->body_length()) > bytes.size() - at)
    source.reject(fmt::format("at byte {}: a message's {} bytes of buffers are cut", start, meta->body_length()));
  const std::string_view body = bytes.substr(at, size_t(meta->body_length()));
  at += body.size();
  return Message{std::move(meta), body};
}

// The requested columns of a schema, and the rows so far.
class Reader {
 public:
  // `whole`: of an entire file, whose masks are those that it needs, and which has no lists.
  Reader(const ArrowOptions& options, const Source& source, bool whole)
      : options_(options), source_(source), whole_(whole) {}

  void set(const format::Schema* schema) {
    if (!schema || !schema->fields()) source_.reject("has no schema");
    if (schema->endianness() != format::Endianness_little)
      source_.reject("its numbers have the highest byte first, which rill does not read");
    schema_ = schema;
    for (const std::string& name : options_.columns) require(name);
    for (const format::Field* f : *schema->fields()) {
      const bool requested = options_.columns.empty() || std::ranges::count(options_.columns, name_of(*f));
      columns_.emplace_back();
      if (!requested) continue;
      columns_.back() = column_of(*f);
      if (columns_.back() && f->dictionary()) add_dictionary(*f);
    }
  }
  void take(const Message& m) {
    if (const format::RecordBatch* r = m.meta->header_as_RecordBatch()) take_rows(*r, m.body);
    else if (const format::DictionaryBatch* d = m.meta->header_as_DictionaryBatch()) take_dictionary(*d, m.body);
    else source_.reject("a message that is neither a record batch nor a dictionary");
  }

  // Only the rows of this batch; earlier ones are dropped.
  Columns columns_of(const format::RecordBatch& meta, std::string_view body) {
    for (auto& column : columns_)
      if (column) column = Array{column->dtype, column->row, column->lists};
    take_rows(meta, body);
    return columns();
  }
  Columns columns() {
    Columns t;
    std::vector<std::string> order = options_.columns;
    if (order.empty())
      for (const format::Field* f : *schema_->fields()) order.push_back(name_of(*f));
    for (uint32_t k = 0; k < order.size(); ++k) {
      const uint32_t i = options_.columns.empty() ? k : require(order[k]);
      if (!columns_[i]) continue;
      add(t, *schema_->fields()->Get(i), *columns_[i]);
    }
    return t;
  }

 private:
  uint32_t require(const std::string& name) const {
    std::string known;
    for (uint32_t i = 0; i < schema_->fields()->size(); ++i) {
      const std::string own = name_of(*schema_->fields()->Get(i));
      if (own == name) return i;
      known += (i ? ", '" : "'") + own + "'";
    }
    source_.reject(fmt::format("has no column '{}'. it has {}", name, known.empty() ? "none" : known));
  }
  // Without rows; nothing where the column is left out for its type.
  std::optional<Array> column_of(const format::Field& f) const {
    std::optional<Array> column;
    try {
      column = empty_column(f, source_);
    } catch (const Error&) {
      if (!options_.skip_others) throw;
    }
    if (!column || !column->lists || !whole_) return column;
    if (options_.skip_others) return {};
    source_.reject(
        fmt::format("the column '{}', of Arrow's type {}, has lists of any length, which are no column of a "
                    "Table. data::arrow() reads them row by row, and ArrowOptions::columns leaves it out",
                    name_of(f), format::EnumNameType(f.type_type())));
  }
  // Columns may share a dictionary.
  void add_dictionary(const format::Field& f) {
    const auto [first, is_new] = fields_.try_emplace(f.dictionary()->id(), &f);
    const format::Field& other = *first->second;
    if (!is_new && !empty_column(other, source_).has_type_of(empty_column(f, source_)))
      source_.reject(fmt::format("the columns '{}' and '{}' share dictionary {}, and have values of different types",
                                 name_of(other), name_of(f), f.dictionary()->id()));
  }
  void take_rows(const format::RecordBatch& meta, std::string_view body) {
    Batch batch(meta, body, source_);
    for (uint32_t i = 0; i < columns_.size(); ++i) {
      const format::Field& f = *schema_->fields()->Get(i);
      if (columns_[i]) columns_[i]->append(read_column(f, batch, dictionaries_));
      else batch.skip(f);
    }
    batch.end();
  }
  void take_dictionary(const format::DictionaryBatch& d, std::string_view body) {
    const auto field = fields_.find(d.id());
    if (field == fields_.end()) return;  // of a column that was not requested
    if (!d.data()) source_.reject("a dictionary without rows");
    Batch batch(*d.data(), body, source_);
    Array rows = read_dictionary(*field->second, batch);
    if (d.is_delta() && dictionaries_.contains(d.id())) dictionaries_[d.id()].append(std::move(rows));
    else dictionaries_[d.id()] = std::move(rows);
  }
  void add(Columns& to, const format::Field& field, const Array& a) {
    Table& t = to.table;
    const std::string name = name_of(field);
    Shape shape{a.lists && !a.splits.empty() ? a.splits.back() : a.lists ? 0 : a.rows};
    for (const Dim d : a.row) shape.push_back(d);
    const Spec spec{shape, a.dtype, false, {}};
    if (!has_sound_size(spec)) source_.reject("the column '" + name + "': " + describe_size(spec));
    if (!a.valid.empty() && !options_.masks)
      source_.reject(
          fmt::format("the column '{}' has no value in row {}. read it with {{.masks = true}}, "
                      "which gives 0, NaN or \"\" and the column '{}.valid'",
                      name, a.valid.find('\0'), name));
    t.names.push_back(name);
    t.columns.push_back(a.dtype == DType::string ? tensor(a.texts, shape, TensorOptions{}, source_.where)
                                                 : of_bytes(a.bytes, spec));
    std::vector<int64_t> splits = a.splits.empty() ? std::vector<int64_t>{0} : a.splits;
    to.splits.push_back(a.lists ? tensor(splits, {.device = Device()}) : Tensor());
    if (!whole_ && !a.valid.empty() && !field.nullable())
      source_.reject(fmt::format("the column '{}' says that it misses no value, and has none in row {}", name,
                                 a.valid.find('\0')));
    const bool masked = whole_ ? !a.valid.empty() : options_.masks && field.nullable();
    if (!masked) return;
    t.names.push_back(name + ".valid");
    t.columns.push_back(of_bytes(a.valid.empty() ? std::string(size_t(a.rows), 1) : a.valid,
                                 {Shape{a.rows}, DType::boolean, false, {}}));
    to.splits.emplace_back();
  }
  static Tensor of_bytes(const std::string& bytes, const Spec& spec) {
    Tensor t = empty(spec.shape, {.dtype = spec.dtype, .device = Device()});
    if (!bytes.empty()) std::memcpy(t.mutable_rep()->data, bytes.data(), bytes.size());
    return t.to(default_device());
  }

  const ArrowOptions& options_;
  const Source& source_;
  bool whole_;
  const format::Schema* schema_ = nullptr;
  std::vector<std::optional<Array>> columns_;       // empty for columns that were not requested
  std::map<int64_t, const format::Field*> fields_;  // of dictionaries, by id
  Dictionaries dictionaries_;
};

Table read_stream(std::string_view bytes, size_t at, Reader& reader, const Source& source) {
  const std::optional<Message> schema = next_message(bytes, at, source);
  if (!schema) source.reject("has no schema");
  reader.set(schema->meta->header_as_Schema());
  while (const std::optional<Message> m = next_message(bytes, at, source)) reader.take(*m);
  return reader.columns().table;
}

// A file ends with the offsets of its messages.
Table read_file_format(std::string_view bytes, Reader& reader, const Source& source) {
  const size_t end = bytes.size() - magic.size();
  if (bytes.size() < 8 + 4 + magic.size() || bytes.substr(end) != magic) source.reject("an Arrow file that is cut");
  const auto length = little_endian<uint32_t>(bytes.data() + end - 4);
  if (length > end - 12) source.reject(fmt::format("its last {} bytes cannot be what they should be", length));
  const Checked<format::Footer> footer(bytes.substr(end - 4 - length, length), "the end of the file,", source);
  reader.set(footer->schema());
  uint64_t total = 0;
  for (const auto* blocks : {footer->dictionaries(), footer->batches()})
    for (uint32_t i = 0; blocks && i < blocks->size(); ++i) {
      const format::Block b = item(*blocks, i);
      if (b.offset() < 0 || uint64_t(b.offset()) >= end)
        source.reject(fmt::format("a record batch at byte {} of {}", b.offset(), bytes.size()));
      size_t at = size_t(b.offset());
      const std::optional<Message> m = next_message(bytes.substr(0, end), at, source);
      if (!m) source.reject(fmt::format("no record batch at byte {}", b.offset()));
      total += at - size_t(b.offset());
      if (total > bytes.size()) source.reject("its record batches overlap");
      reader.take(*m);
    }
  return reader.columns().table;
}

}  // namespace

// --- Batch by batch --------------------------------------------------------------------------------------------------

struct Batches::Impl {
  Impl(const std::string& file, ArrowOptions o, std::string_view name, const Where& place)
      : path(file), op(name), where(place), options(std::move(o)), reader(options, source, false) {}

  void open() {
    in = std::make_unique<ByteStream>(path, op, where);
    const Packing packing = packing_by_mark(in->start());
    if (packing != Packing::none) in->unpack(packing, where);
    if (!in->is_packed() && !in->is_pipe() && path != "-") {
      const FileReader file(path, op, where);
      mapping = file.map();
      bytes = {mapping.get(), size_t(file.size())};
      source.file_bytes = bytes.size();
    }
    check_start(mapping ? std::string(bytes.substr(0, magic.size())) : std::string(in->start()));
    if (mapping && is_file) read_footer();
    else read_schema();
  }
  void check_start(std::string start) {
    if (!mapping && in->is_packed()) {
      start.clear();
      in->read(start, magic.size(), where);
      in->unread(start);
    }
    if (start.starts_with(old_feather))
      source.reject("is a Feather file of version 1, which rill does not read. write it anew as version 2");
    is_file = start.starts_with(magic);
  }
  // The offsets of all batches, for a file with a footer.
  void read_footer() {
    const size_t end = bytes.size() - magic.size();
    if (bytes.size() < 8 + 4 + magic.size() || bytes.substr(end) != magic) source.reject("an Arrow file that is cut");
    const auto length = little_endian<uint32_t>(bytes.data() + end - 4);
    if (length > end - 12) source.reject(fmt::format("its last {} bytes cannot be what they should be", length));
    footer.emplace(bytes.substr(end - 4 - length, length), "the end of the file,", source);
    reader.set((*footer)->schema());
    bytes = bytes.substr(0, end);
    for (const auto* all : {(*footer)->dictionaries(), (*footer)->batches()})
      for (uint32_t i = 0; all && i < all->size(); ++i) {
        const format::Block b = item(*all, i);
        if (b.offset() < 0 || uint64_t(b.offset()) >= end)
          source.reject(fmt::format("a record batch at byte {} of {}", b.offset(), bytes.size()));
        offsets.push_back(size_t(b.offset()));
      }
  }
  void read_schema() {
    if (is_file && mapping) at = 8;
    if (is_file && !mapping) {
      std::string start;
      in->read(start, 8, where);
    }
    schema = next_of_stream();
    if (!schema) source.reject("has no schema");
    reader.set(schema->meta->header_as_Schema());
  }
  // The bytes of a schema are kept: the reader refers to them.
  std::optional<Message> next_of_stream() {
    if (mapping) return next_message(bytes, at, source);
    std::string& text = schema ? held : schema_bytes;
    text.clear();
    in->read(text, 4, where);
    if (text.empty()) return {};
    uint32_t length = text.size() == 4 ? little_endian<uint32_t>(text.data()) : continuation;
    if (length == continuation) {
      in->read(text, 4, where);
      if (text.size() < 8) source.reject("the length of a message is cut");
      length = little_endian<uint32_t>(text.data() + 4);
    }
    if (length == 0) return {};
    const size_t head = text.size();
    in->read(text, length, where);
    if (text.size() - head < length) source.reject(fmt::format("a message of {} bytes is cut", length));
    const Checked<format::Message> meta(std::string_view(text).substr(head), "a message", source);
    if (meta->body_length() < 0) source.reject("a message of a negative length");
    in->read(text, size_t(meta->body_length()), where);
    source.file_bytes = uint64_t(in->offset());
    size_t start = 0;
    return next_message(text, start, source);
  }
  std::optional<Message> next_any() {
    if (!footer) return next_of_stream();
    if (place == offsets.size()) return {};
    at = offsets[place++];
    std::optional<Message> m = next_message(bytes, at, source);
    if (!m) source.reject(fmt::format("no record batch at byte {}", offsets[place - 1]));
    return m;
  }
  // The next message with rows; dictionaries before it are read.
  bool find() {
    while (!ahead) {
      std::optional<Message> m = ended ? std::nullopt : next_any();
      ended = !m;  // after the end of a stream a file has its footer
      if (ended) return false;
      if (m->meta->header_as_RecordBatch()) ahead = std::move(m);
      else reader.take(*m);
    }
    return true;
  }

  std::string path;
  std::string_view op;
  Where where;
  ArrowOptions options;
  Source source{path, where, 0, op};
  Reader reader;
  std::unique_ptr<ByteStream> in;
  std::shared_ptr<char> mapping;  // of a file with a footer
  std::string_view bytes;
  bool is_file = false, ended = false;
  std::optional<Checked<format::Footer>> footer;
  std::vector<size_t> offsets;
  size_t at = 0, place = 0;
  std::string schema_bytes, held;
  std::optional<Message> schema, ahead;
};

Batches::Batches(const std::string& path, ArrowOptions options, std::string_view op, const Where& where)
    : impl_(std::make_unique<Impl>(path, std::move(options), op, where)) {
  impl_->open();
}
Batches::Batches(std::string_view stream, const std::string& path, ArrowOptions options, std::string_view op,
                 const Where& where)
    : impl_(std::make_unique<Impl>(path, std::move(options), op, where)) {
  impl_->mapping = std::shared_ptr<char>(const_cast<char*>(stream.data()), [](char*) {});  // it is only read
  impl_->bytes = stream;
  impl_->source.file_bytes = stream.size();
  impl_->read_schema();
}
Batches::~Batches() = default;

std::optional<int64_t> Batches::rows() {
  if (!impl_->find()) return {};
  const int64_t n = impl_->ahead->meta->header_as_RecordBatch()->length();
  if (n < 0) impl_->source.reject(fmt::format("a record batch of {} rows", n));
  return n;
}
void Batches::pass() {
  if (impl_->find()) impl_->ahead.reset();
}
Columns Batches::next() {
  const EagerScope eager;
  if (!impl_->find()) return {};
  const Message m = std::move(*impl_->ahead);
  impl_->ahead.reset();
  return impl_->reader.columns_of(*m.meta->header_as_RecordBatch(), m.body);
}

}  // namespace arrow

Table read_arrow(const std::string& path, ArrowOptions options, Where where) {
  const CallerScope caller(where);
  const EagerScope eager;
  const std::string bytes = read_file(path, "read_arrow", where, Accepts::streams);
  const arrow::Source source{path, where, bytes.size()};
  if (bytes.starts_with(arrow::old_feather))
    source.reject("is a Feather file of version 1, which rill does not read. write it anew as version 2");
  arrow::Reader reader(options, source, true);
  if (bytes.starts_with(arrow::magic)) return arrow::read_file_format(bytes, reader, source);
  return arrow::read_stream(bytes, 0, reader, source);
}

}  // namespace rill
