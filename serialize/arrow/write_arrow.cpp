// Tables as Arrow IPC files and streams: a schema, one record batch and, in a file, a footer with their offsets. Start
// at write_arrow.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "arrow_generated.h"
#include "rill/ops/apply.h"
#include "rill/serialize/arrow.h"
#include "rill/serialize/files.h"
#include "rill/serialize/tensors/elements.h"
#include "rill/serialize/utf8.h"

namespace rill {
namespace arrow {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr size_t alignment = 64;  // of buffers, as Arrow advises
size_t padded(size_t n, size_t to) { return (n + to - 1) / to * to; }

// A record batch's part of the columns: a node for each array, and their buffers.
struct Body {
  std::vector<format::FieldNode> nodes;
  std::vector<format::Buffer> buffers;
  std::vector<std::string_view> bytes;  // of buffers, in their order
  uint64_t size = 0;
  std::deque<std::string> texts = {};  // owns bytes that `bytes` refers to, as do these
  std::vector<Tensor> tensors = {};

  void add(std::string_view buffer) {
    buffers.emplace_back(int64_t(size), int64_t(buffer.size()));
    size += padded(buffer.size(), alignment);
    bytes.push_back(buffer);
  }
  void add_node(int64_t rows) {
    nodes.emplace_back(rows, 0);
    add({});  // no validity bitmap: no values are missing
  }
};

std::string bits_of(const Tensor& t) {
  const auto* elements = reinterpret_cast<const uint8_t*>(t.rep()->data);
  std::string bits(size_t(t.size() + 7) / 8, '\0');
  for (size_t i = 0; i < size_t(t.size()); ++i) bits[i / 8] = char(bits[i / 8] | (elements[i] != 0) << (i % 8));
  return bits;
}

void add_texts(const std::vector<std::string>& texts, Body& body) {
  std::string offsets(8 * (texts.size() + 1), '\0'), all;
  for (size_t i = 0; i < texts.size(); ++i) {
    all += texts[i];
    const auto end = uint64_t(all.size());
    std::memcpy(&offsets[8 * (i + 1)], &end, 8);
  }
  body.add(body.texts.emplace_back(std::move(offsets)));
  body.add(body.texts.emplace_back(std::move(all)));
}

// A column of more axes is a list of lists: a node for each, and the elements of the innermost.
void add_elements(const Tensor& t, Body& body) {
  int64_t rows = t.shape()[0];
  for (size_t i = 1; i < size_t(t.ndim()); ++i) body.add_node(rows), rows *= t.shape()[i];
  body.add_node(rows);
  if (t.dtype() == DType::string) return add_texts(t.to_vector<std::string>(), body);
  const Tensor& dense = body.tensors.emplace_back(t.to(Device()).contiguous());
  if (is_bool(t.dtype())) body.add(body.texts.emplace_back(bits_of(dense)));
  else body.add({dense.rep()->data, size_t(t.size()) * size_of(t.dtype())});
}

bool is_text(const Tensor& t) {
  return t.dtype() != DType::string || std::ranges::all_of(t.to_vector<std::string>(), is_utf8);
}

// The type of one element; NONE if Arrow has no such type.
format::Type type_of(FlatBufferBuilder& b, DType d, bool utf8, Offset<void>& type) {
  const auto integer = [&](int bits, bool is_signed) {
    type = format::CreateInt(b, bits, is_signed).Union();
    return format::Type_Int;
  };
  const auto real = [&](format::Precision p) {
    type = format::CreateFloatingPoint(b, p).Union();
    return format::Type_FloatingPoint;
  };
  switch (d) {
    case DType::boolean: type = format::CreateBool(b).Union(); return format::Type_Bool;
    case DType::i8: return integer(8, true);
    case DType::i16: return integer(16, true);
    case DType::i32: return integer(32, true);
    case DType::i64: return integer(64, true);
    case DType::u8: return integer(8, false);
    case DType::u16: return integer(16, false);
    case DType::u32: return integer(32, false);
    case DType::u64: return integer(64, false);
    case DType::f16: return real(format::Precision_half);
    case DType::f32: return real(format::Precision_single);
    case DType::f64: return real(format::Precision_double_);
    case DType::string:
      if (utf8) type = format::CreateLargeUtf8(b).Union();
      else type = format::CreateLargeBinary(b).Union();
      return utf8 ? format::Type_LargeUtf8 : format::Type_LargeBinary;
    default: return format::Type_NONE;
  }
}

Offset<format::Field> make_field(FlatBufferBuilder& b, const std::string& name, const Tensor& t, bool utf8) {
  Offset<void> type;
  format::Type kind = type_of(b, t.dtype(), utf8, type);
  std::vector<Offset<format::Field>> children;
  for (int i = t.ndim() - 1; i > 0; --i) {
    const auto item = b.CreateString("item");
    children = {format::CreateField(b, item, false, kind, type, 0, b.CreateVector(children))};
    type = format::CreateFixedSizeList(b, int32_t(t.shape()[size_t(i)])).Union();
    kind = format::Type_FixedSizeList;
  }
  const auto text = b.CreateString(name);
  return format::CreateField(b, text, false, kind, type, 0, b.CreateVector(children));
}

Offset<format::Schema> make_schema(FlatBufferBuilder& b, const Table& table, const std::vector<bool>& utf8) {
  std::vector<Offset<format::Field>> fields;
  for (size_t i = 0; i < table.names.size(); ++i)
    fields.push_back(make_field(b, table.names[i], table.columns[i], utf8[i]));
  return format::CreateSchema(b, format::Endianness_little, b.CreateVector(fields));
}

// Throws if a column cannot be stored in a file.
void check(const Table& table, const Where& where) {
  constexpr std::string_view op = "write_arrow";
  detail::require_names(table, op, where);
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Tensor& t = table.columns[i];
    require_elements(op, t, table.names[i], where);
    FlatBufferBuilder b;
    Offset<void> ignored;
    const std::string what = fmt::format("the column '{}' is {}. ", table.names[i], to_string(t.spec()));
    if (type_of(b, t.dtype(), true, ignored) == format::Type_NONE)
      fail(op, what + "Arrow has no such dtype: convert it by astype()", where);
    if (t.ndim() == 0 || t.shape()[0] != table.columns[0].shape()[0])
      fail(op, what + "columns have an axis of rows, of one length in all", where);
    for (int k = 1; k < t.ndim(); ++k)
      if (t.shape()[size_t(k)] < 1 || t.shape()[size_t(k)] > INT32_MAX)
        fail(op, what + fmt::format("lists have from 1 to {} elements", INT32_MAX), where);
  }
}

// --- Messages --------------------------------------------------------------------------------------------------------

class Writer {
 public:
  Writer(const std::string& path, const Where& where) : out_(path, "write_arrow", where) {}
  void put(std::string_view bytes) {
    out_.write(bytes);
    at_ += bytes.size();
  }
  void pad(size_t to) { put(std::string(padded(at_, to) - at_, '\0')); }
  template <class T>
  void number(T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    put({bytes, sizeof(T)});
  }
  // Returns its position. Bodies begin at a multiple of 64 bytes in the file.
  format::Block message(FlatBufferBuilder& b, Offset<format::Message> m, const Body& body) {
    b.Finish(m);
    const size_t start = at_, end = padded(start + 8 + b.GetSize(), body.bytes.empty() ? 8 : alignment);
    number(uint32_t(0xFFFFFFFF));
    number(uint32_t(end - start - 8));
    put({reinterpret_cast<const char*>(b.GetBufferPointer()), b.GetSize()});
    put(std::string(end - at_, '\0'));
    for (const std::string_view buffer : body.bytes) put(buffer), pad(alignment);
    return {int64_t(start), int32_t(end - start), int64_t(body.size)};
  }
  void commit() { out_.commit(); }

 private:
  FileWriter out_;
  uint64_t at_ = 0;
};

format::Block put_rows(Writer& out, const Table& table) {
  Body body;
  for (const Tensor& t : table.columns) add_elements(t, body);
  FlatBufferBuilder b;
  const auto nodes = b.CreateVectorOfStructs(body.nodes);
  const auto buffers = b.CreateVectorOfStructs(body.buffers);
  const int64_t rows = table.columns.empty() ? 0 : int64_t(table.columns[0].shape()[0]);
  const auto batch = format::CreateRecordBatch(b, rows, nodes, buffers).Union();
  return out.message(
      b, format::CreateMessage(b, format::Version_V5, format::Header_RecordBatch, batch, int64_t(body.size)), body);
}

void write(const std::string& path, const Table& table, bool stream, const Where& where) {
  Writer out(path, where);
  std::vector<bool> utf8;
  for (const Tensor& t : table.columns) utf8.push_back(is_text(t));
  if (!stream) out.put({"ARROW1\0\0", 8});
  FlatBufferBuilder head;
  const auto schema = make_schema(head, table, utf8).Union();
  out.message(head, format::CreateMessage(head, format::Version_V5, format::Header_Schema, schema), Body());
  const format::Block block = put_rows(out, table);
  out.number(uint64_t(0xFFFFFFFF));  // end of stream: a length of 0
  if (stream) return out.commit();
  FlatBufferBuilder foot;
  const auto again = make_schema(foot, table, utf8);
  const auto none = foot.CreateVectorOfStructs(std::vector<format::Block>());
  const auto blocks = foot.CreateVectorOfStructs(std::vector<format::Block>{block});
  foot.Finish(format::CreateFooter(foot, format::Version_V5, again, none, blocks));
  out.put({reinterpret_cast<const char*>(foot.GetBufferPointer()), foot.GetSize()});
  out.number(uint32_t(foot.GetSize()));
  out.put("ARROW1");
  out.commit();
}

}  // namespace
}  // namespace arrow

void write_arrow(const std::string& path, const Table& table, Where where) {
  const CallerScope caller(where);
  const EagerScope eager;
  arrow::check(table, where);
  arrow::write(path, table, path.ends_with(".arrows"), where);
}

}  // namespace rill
