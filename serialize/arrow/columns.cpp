// Arrow's columns as arrays of rows: https://arrow.apache.org/docs/format/Columnar.html. Start at read_column. Every
// buffer's size is checked against the rows that its column claims before it is read.
#include "rill/serialize/arrow/columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "rill/serialize/tensors/elements.h"
#include "rill/tensor/limits.h"

namespace rill::arrow {
namespace {

// --- Types -----------------------------------------------------------------------------------------------------------

// How a type's elements are stored in buffers.
struct Layout {
  enum class Kind : uint8_t {
    numbers,
    short_times,
    bits,
    short_texts,
    long_texts,
    views,
    fixed_texts,
    list,
    short_lists,
    long_lists,
    nothing,
    other
  };
  Kind kind = Kind::other;
  DType dtype = DType::string;
  int64_t size = 0;  // of a list, or the bytes of a text
};

constexpr int16_t sparse_union = 0;  // Union's mode; 1 is a dense one

DType integer_of(const format::Int& t, bool& known) {
  const bool s = t.is_signed();
  known = true;
  switch (t.bits()) {
    case 8: return s ? DType::i8 : DType::u8;
    case 16: return s ? DType::i16 : DType::u16;
    case 32: return s ? DType::i32 : DType::u32;
    case 64: return s ? DType::i64 : DType::u64;
    default: known = false; return DType::i64;
  }
}

Layout layout_of(const format::Field& f) {
  using Kind = Layout::Kind;
  bool known = false;
  if (!f.type()) return {};
  switch (f.type_type()) {
    case format::Type_Int: {
      const DType d = integer_of(*f.type_as_Int(), known);
      return {known ? Kind::numbers : Kind::other, d, 0};
    }
    case format::Type_FloatingPoint:
      switch (f.type_as_FloatingPoint()->precision()) {
        case format::Precision_half: return {Kind::numbers, DType::f16, 0};
        case format::Precision_single: return {Kind::numbers, DType::f32, 0};
        case format::Precision_double_: return {Kind::numbers, DType::f64, 0};
        default: return {};
      }
    case format::Type_Null:
      return {Kind::nothing, DType::f64, 0};  // as a column of a CSV file in which all are missing
    case format::Type_Bool: return {Kind::bits, DType::boolean, 0};
    case format::Type_Utf8:
    case format::Type_Binary: return {Kind::short_texts, DType::string, 0};
    case format::Type_LargeUtf8:
    case format::Type_LargeBinary: return {Kind::long_texts, DType::string, 0};
    case format::Type_Utf8View:
    case format::Type_BinaryView: return {Kind::views, DType::string, 0};
    case format::Type_FixedSizeBinary: return {Kind::fixed_texts, DType::string, f.type_as_FixedSizeBinary()->width()};
    case format::Type_FixedSizeList: return {Kind::list, DType::f32, f.type_as_FixedSizeList()->size()};
    case format::Type_List: return {Kind::short_lists, DType::f32, 0};
    case format::Type_LargeList: return {Kind::long_lists, DType::f32, 0};
    // Times count units since 1970 or midnight, as numpy's datetime64 and timedelta64 do, in 64 bits or in 32.
    case format::Type_Timestamp:
    case format::Type_Duration: return {Kind::numbers, DType::i64, 0};
    case format::Type_Date: return {f.type_as_Date()->unit() == 0 ? Kind::short_times : Kind::numbers, DType::i64, 0};
    case format::Type_Time: return {f.type_as_Time()->bits() == 32 ? Kind::short_times : Kind::numbers, DType::i64, 0};
    default: return {};
  }
}

std::string described(const format::Field& f) {
  const format::Type t = f.type_type();
  const bool known = t > format::Type_NONE && t <= format::Type_MAX;
  return fmt::format("the column '{}', of Arrow's type {}", name_of(f), known ? format::EnumNameType(t) : "?");
}

[[noreturn]] void refuse_type(const format::Field& f, const Source& source) {
  source.reject(described(f) +
                ", is none that rill reads: integers, floats, bools, texts, dates and times, lists of these, "
                "dictionaries. leave "
                "it out by {.skip_others = true}, or cast it in the program that writes it");
}

const format::Field& child_of(const format::Field& f, const Source& source) {
  if (!f.children() || f.children()->size() != 1) source.reject(described(f) + ": a list of no single type");
  return *f.children()->Get(0);
}

// --- Buffers ---------------------------------------------------------------------------------------------------------

void need(std::string_view buffer, int64_t count, int64_t width, const format::Field& f, const Source& source) {
  if (count > int64_t(buffer.size()) / width)
    source.reject(
        fmt::format("{}: {} elements of {} bytes in a buffer of {} bytes", described(f), count, width, buffer.size()));
}

bool bit(std::string_view bits, int64_t i) { return uint8_t(bits[size_t(i / 8)]) >> (i % 8) & 1; }

void need_bits(std::string_view buffer, int64_t count, const format::Field& f, const Source& source) {
  if (count / 8 + (count % 8 != 0) > int64_t(buffer.size()))
    source.reject(fmt::format("{}: {} bits in a buffer of {} bytes", described(f), count, buffer.size()));
}

// A byte for each row; empty if all rows have a value.
std::string read_valid(std::string_view bits, const format::FieldNode& node, const format::Field& f,
                       const Source& source) {
  if (bits.empty() && node.nulls() > 0)
    source.reject(fmt::format("{}: {} missing values, and no word of which", described(f), node.nulls()));
  std::string valid;
  if (bits.empty() || node.nulls() == 0) return valid;
  need_bits(bits, node.length(), f, source);
  valid.resize(size_t(node.length()));
  bool all = true;
  for (int64_t i = 0; i < node.length(); ++i) all &= valid[size_t(i)] = char(bit(bits, i));
  if (all) valid.clear();
  return valid;
}

// Texts between offsets of type T.
template <class T>
void read_texts(Array& out, std::string_view offsets, std::string_view data, const format::Field& f,
                const Source& source) {
  if (out.rows == 0) return;
  need(offsets, out.rows, sizeof(T), f, source);
  need(offsets.substr(sizeof(T)), out.rows, sizeof(T), f, source);
  const auto at = [&](int64_t i) { return int64_t(little_endian<T>(offsets.data() + size_t(i) * sizeof(T))); };
  for (int64_t i = 0; i < out.rows; ++i) {
    const int64_t from = at(i), to = at(i + 1);
    if (from < 0 || to < from || to > int64_t(data.size()))
      source.reject(
          fmt::format("{}, row {}: the text from byte {} to {} of {}", described(f), i, from, to, data.size()));
    out.texts.emplace_back(data.substr(size_t(from), size_t(to - from)));
  }
}

// The most that a column may expand to whose rows can refer to the same bytes of a file; more is refused as an attack.
uint64_t most_bytes(const Source& source) { return 1024 * source.file_bytes + (uint64_t(64) << 20); }

// A view holds a text of up to 12 bytes; of a longer one its length, its first bytes, its buffer and the offset there.
void read_views(Array& out, std::string_view views, Batch& batch, const format::Field& f) {
  constexpr size_t width = 16, in_place = 12;
  const Source& source = batch.source();
  std::vector<std::string_view> buffers;
  for (int64_t n = batch.next_count(); n > 0; --n) buffers.push_back(batch.next_buffer());
  need(views, out.rows, width, f, source);
  uint64_t total = uint64_t(out.rows) * sizeof(std::string);
  for (int64_t i = 0; i < out.rows; ++i) {
    const std::string_view view = views.substr(size_t(i) * width, width);
    const auto at = [&](size_t byte) { return int64_t(little_endian<int32_t>(&view[byte])); };
    const int64_t length = at(0), buffer = at(8), from = at(12);
    if (!out.valid.empty() && !out.valid[size_t(i)]) {
      out.texts.emplace_back();  // its bytes mean nothing
    } else if (length >= 0 && size_t(length) <= in_place) {
      out.texts.emplace_back(view.substr(4, size_t(length)));
    } else {
      const int64_t size =
          buffer >= 0 && size_t(buffer) < buffers.size() ? int64_t(buffers[size_t(buffer)].size()) : -1;
      if (length < 0 || from < 0 || from > size || length > size - from)
        source.reject(fmt::format("{}, row {}: the text of {} bytes from byte {} of buffer {}, of which there are {}",
                                  described(f), i, length, from, buffer, buffers.size()));
      if (total += uint64_t(length); total > most_bytes(source))
        source.reject(described(f) + fmt::format(": its views make more than {} bytes of the file's {}",
                                                 most_bytes(source), source.file_bytes));
      out.texts.emplace_back(buffers[size_t(buffer)].substr(size_t(from), size_t(length)));
    }
  }
}

// Rows without a value keep whatever the writer left there; sets them to 0, NaN or "".
void blank(Array& a) {
  if (a.valid.empty() || a.lists) return;
  const size_t each = a.bytes_of_row(), texts = a.texts_of_row(), width = size_of(a.dtype);
  const uint64_t nan = a.dtype == DType::f64 ? 0x7FF8000000000000 : a.dtype == DType::f32 ? 0x7FC00000 : 0x7E00;
  const uint64_t value = is_floating(a.dtype) ? nan : 0;
  for (size_t i = 0; i < size_t(a.rows); ++i) {
    if (a.valid[i]) continue;
    for (size_t at = i * texts; at < (i + 1) * texts; ++at) a.texts[at].clear();
    for (size_t at = i * each; at < (i + 1) * each; at += width) std::memcpy(&a.bytes[at], &value, width);
  }
}

// --- Columns ---------------------------------------------------------------------------------------------------------

Array read_values(const format::Field& field, Batch& batch, int depth);

Array read_list(const format::Field& f, const Layout& layout, const format::FieldNode& node, Batch& batch, int depth) {
  const Source& source = batch.source();
  const std::string valid = read_valid(batch.next_buffer(), node, f, source);
  Array out = read_values(child_of(f, source), batch, depth + 1);
  if (out.rows / layout.size < node.length())
    source.reject(
        fmt::format("{}: {} lists of {} have only {} elements", described(f), node.length(), layout.size, out.rows));
  for (int64_t i = 0; !out.valid.empty() && i < node.length() * layout.size; ++i)
    if (!out.valid[size_t(i)] && (valid.empty() || valid[size_t(i / layout.size)]))
      source.reject(fmt::format("{}, row {}: a list in which a value is missing", described(f), i / layout.size));
  const auto used = size_t(node.length() * layout.size);
  out.bytes.resize(used * out.bytes_of_row());
  out.texts.resize(used * out.texts_of_row());
  Shape row{layout.size};
  for (const Dim d : out.row) row.push_back(d);
  out.row = row;
  out.rows = node.length();
  out.valid = valid;
  return out;
}

// Lists of any length, between offsets of type T. A list that is missing has no values.
template <class T>
Array read_lists(const format::Field& f, const format::FieldNode& node, Batch& batch, int depth) {
  const Source& source = batch.source();
  if (depth > 0) refuse_type(f, source);
  const std::string valid = read_valid(batch.next_buffer(), node, f, source);
  const std::string_view offsets = batch.next_buffer();
  const Array all = read_values(child_of(f, source), batch, depth + 1);
  Array out;
  out.dtype = all.dtype, out.row = all.row, out.lists = true, out.rows = node.length(), out.valid = valid;
  if (out.rows == 0) return out;
  need(offsets, out.rows, sizeof(T), f, source);
  need(offsets.substr(sizeof(T)), out.rows, sizeof(T), f, source);
  const auto at = [&](int64_t i) { return int64_t(little_endian<T>(offsets.data() + size_t(i) * sizeof(T))); };
  const size_t bytes = all.bytes_of_row(), texts = all.texts_of_row();
  out.splits.push_back(0);
  for (int64_t i = 0, before = 0; i < out.rows; ++i) {
    const int64_t from = at(i), to = at(i + 1);
    if (from < before || to < from || to > all.rows)
      source.reject(fmt::format("{}, row {}: the list from value {} to {} of {}", described(f), i, from, to, all.rows));
    before = to;
    const bool there = valid.empty() || valid[size_t(i)];
    out.splits.push_back(out.splits.back() + (there ? to - from : 0));
    if (!there) continue;
    if (!all.valid.empty() && all.valid.find('\0', size_t(from)) < size_t(to))
      source.reject(fmt::format("{}, row {}: a list in which a value is missing", described(f), i));
    out.bytes.append(all.bytes, size_t(from) * bytes, size_t(to - from) * bytes);
    out.texts.insert(out.texts.end(), all.texts.begin() + int64_t(texts) * from,
                     all.texts.begin() + int64_t(texts) * to);
  }
  return out;
}

// Rows without a value, of which the file has no bytes.
Array read_nothing(const format::Field& f, int64_t rows, const Source& source) {
  if (uint64_t(rows) > most_bytes(source) / sizeof(double))
    source.reject(fmt::format("{}: {} rows in a file of {} bytes", described(f), rows, source.file_bytes));
  Array out;
  out.dtype = DType::f64, out.rows = rows;
  out.bytes.resize(size_t(rows) * sizeof(double));
  out.valid.resize(size_t(rows), 0);
  return out;
}

Array read_values(const format::Field& f, Batch& batch, int depth) {
  using Kind = Layout::Kind;
  const Source& source = batch.source();
  const Layout layout = layout_of(f);
  if (layout.kind == Kind::other || (depth > 0 && f.dictionary()) || depth > 16) refuse_type(f, source);
  const bool sized = layout.kind == Kind::list || layout.kind == Kind::fixed_texts;
  if (sized && layout.size < 1) source.reject(fmt::format("{}: elements of size {}", described(f), layout.size));
  const format::FieldNode node = batch.next_node();
  if (layout.kind == Kind::list) return read_list(f, layout, node, batch, depth);
  if (layout.kind == Kind::short_lists) return read_lists<int32_t>(f, node, batch, depth);
  if (layout.kind == Kind::long_lists) return read_lists<int64_t>(f, node, batch, depth);
  if (layout.kind == Kind::nothing) return read_nothing(f, node.length(), source);
  Array out;
  out.dtype = layout.dtype, out.rows = node.length();
  out.valid = read_valid(batch.next_buffer(), node, f, source);
  const std::string_view first = batch.next_buffer();
  const int64_t width = layout.kind == Kind::fixed_texts ? layout.size : int64_t(size_of(layout.dtype));
  switch (layout.kind) {
    case Kind::numbers:
      need(first, out.rows, width, f, source);
      out.bytes = first.substr(0, size_t(out.rows * width));
      break;
    case Kind::short_times:
      need(first, out.rows, 4, f, source);
      out.bytes.resize(size_t(out.rows) * 8);
      for (int64_t i = 0; i < out.rows; ++i) {
        const int64_t time = little_endian<int32_t>(first.data() + 4 * i);
        std::memcpy(out.bytes.data() + 8 * i, &time, 8);
      }
      break;
    case Kind::bits:
      need_bits(first, out.rows, f, source);
      for (int64_t i = 0; i < out.rows; ++i) out.bytes.push_back(char(bit(first, i)));
      break;
    case Kind::short_texts: read_texts<int32_t>(out, first, batch.next_buffer(), f, source); break;
    case Kind::long_texts: read_texts<int64_t>(out, first, batch.next_buffer(), f, source); break;
    case Kind::views: read_views(out, first, batch, f); break;
    default:
      need(first, out.rows, width, f, source);
      for (int64_t i = 0; i < out.rows; ++i) out.texts.emplace_back(first.substr(size_t(i * width), size_t(width)));
  }
  return out;
}

// The dictionary indices of the rows.
std::vector<int64_t> read_indices(std::string_view buffer, DType dtype, int64_t rows) {
  std::vector<int64_t> out;
  out.reserve(size_t(rows));
  for (int64_t i = 0; i < rows; ++i) {
    const char* at = buffer.data() + size_t(i) * size_of(dtype);
    switch (dtype) {
      case DType::i8: out.push_back(int8_t(*at)); break;
      case DType::u8: out.push_back(uint8_t(*at)); break;
      case DType::i16: out.push_back(little_endian<int16_t>(at)); break;
      case DType::u16: out.push_back(little_endian<uint16_t>(at)); break;
      case DType::i32: out.push_back(little_endian<int32_t>(at)); break;
      case DType::u32: out.push_back(little_endian<uint32_t>(at)); break;
      default: out.push_back(little_endian<int64_t>(at));
    }
  }
  return out;
}

[[noreturn]] void refuse_growth(const format::Field& f, uint64_t most, const Source& source) {
  source.reject(described(f) +
                fmt::format(": its dictionary makes more than {} bytes of the file's {}", most, source.file_bytes));
}

// The rows of `from` at `indices`. A long text in a dictionary may stand for many rows; an excessive expansion is
// refused as an attack.
Array gathered(const Array& from, const std::vector<int64_t>& indices, std::string valid, const format::Field& f,
               const Source& source) {
  Array out;
  out.dtype = from.dtype, out.row = from.row, out.rows = int64_t(indices.size()), out.valid = std::move(valid);
  const size_t each = from.bytes_of_row(), texts = from.texts_of_row();
  const bool gaps = !from.valid.empty() && !indices.empty();
  if (gaps && out.valid.empty()) out.valid.assign(indices.size(), 1);
  const uint64_t most = most_bytes(source);
  const uint64_t every = std::max<uint64_t>(1, each + texts * sizeof(std::string));
  if (indices.size() > most / every) refuse_growth(f, most, source);
  uint64_t total = every * indices.size();
  for (size_t i = 0; i < indices.size(); ++i) {
    const bool missing = !out.valid.empty() && !out.valid[i];
    if (!missing && (indices[i] < 0 || indices[i] >= from.rows))
      source.reject(
          fmt::format("{}, row {}: element {} of a dictionary of {}", described(f), i, indices[i], from.rows));
    const auto at = missing ? size_t(0) : size_t(indices[i]);
    if (missing) out.bytes.append(each, '\0'), out.texts.resize(out.texts.size() + texts);
    else out.bytes.append(from.bytes, at * each, each);
    for (size_t k = 0; !missing && k < texts; ++k) {
      out.texts.push_back(from.texts[at * texts + k]);
      total += out.texts.back().size();
    }
    if (gaps && !missing) out.valid[i] = from.valid[at];
    if (total > most) refuse_growth(f, most, source);
  }
  if (gaps && out.valid.find('\0') == std::string::npos) out.valid.clear();  // no row uses the missing value
  return out;
}

}  // namespace

void Source::reject(const std::string& what) const { fail(op, fmt::format("'{}': {}", path, what), where); }

std::string name_of(const format::Field& field) { return field.name() ? field.name()->str() : std::string(); }

void Array::append(Array&& more) {
  assert(has_type_of(more));
  if (!valid.empty() || !more.valid.empty()) {
    if (valid.empty()) valid.assign(size_t(rows), 1);
    if (more.valid.empty()) more.valid.assign(size_t(more.rows), 1);
    valid += more.valid;
  }
  if (splits.empty()) splits = std::move(more.splits);
  else
    for (size_t i = 1, last = splits.size() - 1; i < more.splits.size(); ++i)
      splits.push_back(splits[last] + more.splits[i]);
  rows += more.rows;
  bytes.empty() ? void(bytes = std::move(more.bytes)) : void(bytes += more.bytes);
  if (texts.empty()) texts = std::move(more.texts);
  else
    texts.insert(texts.end(), std::make_move_iterator(more.texts.begin()), std::make_move_iterator(more.texts.end()));
}

Batch::Batch(const format::RecordBatch& meta, std::string_view body, const Source& source)
    : meta_(meta), body_(body), source_(source), rows_(meta.length()) {
  if (rows_ < 0) source.reject(fmt::format("a record batch of {} rows", rows_));
}

format::FieldNode Batch::next_node() {
  if (!meta_.nodes() || nodes_ >= meta_.nodes()->size())
    source_.reject("a record batch has fewer columns than the schema");
  const format::FieldNode node = item(*meta_.nodes(), nodes_++);
  if (node.length() < 0 || node.length() > max_tensor_bytes)
    source_.reject(fmt::format("a column of {} rows", node.length()));
  return node;
}

std::string_view Batch::buffer_at(uint32_t index) const {
  if (!meta_.buffers() || index >= meta_.buffers()->size()) source_.reject("a record batch has too few buffers");
  const format::Buffer b = item(*meta_.buffers(), index);
  const auto size = int64_t(body_.size());
  if (b.offset() < 0 || b.length() < 0 || b.offset() > size || b.length() > size - b.offset())
    source_.reject(
        fmt::format("a buffer of {} bytes from byte {} on, in a batch of {} bytes", b.length(), b.offset(), size));
  return body_.substr(size_t(b.offset()), size_t(b.length()));
}

std::string_view Batch::next_buffer() {
  const std::string_view packed = buffer_at(buffers_++);
  if (!meta_.compression() || packed.empty()) return packed;
  if (packed.size() < 8) source_.reject("a compressed buffer without its size");
  const auto size = little_endian<int64_t>(&packed[0]);
  if (size == -1) return packed.substr(8);  // it was not compressible
  return unpacked_.emplace_back(unpack(packed.substr(8), meta_.compression()->codec(), size, source_));
}

int64_t Batch::next_count() {
  const auto* counts = meta_.variadic_counts();
  if (!counts || counts_ >= counts->size())
    source_.reject("a record batch does not say how many buffers its views have");
  const int64_t n = item(*counts, counts_++), all = meta_.buffers() ? int64_t(meta_.buffers()->size()) : 0;
  if (n < 0 || n > all) source_.reject(fmt::format("a column of views has {} buffers, of {}", n, all));
  return n;
}

void Batch::skip(const format::Field& field) {
  next_node();
  const auto pass = [&](uint32_t n) { buffers_ += n; };
  if (field.dictionary()) return pass(2);
  switch (field.type_type()) {
    case format::Type_Null: return;
    case format::Type_Struct:
    case format::Type_FixedSizeList: pass(1); break;
    case format::Type_Utf8:
    case format::Type_Binary:
    case format::Type_LargeUtf8:
    case format::Type_LargeBinary: return pass(3);
    case format::Type_ListView:
    case format::Type_LargeListView: pass(3); break;
    case format::Type_BinaryView:
    case format::Type_Utf8View: return pass(2 + uint32_t(next_count()));
    case format::Type_RunEndEncoded: break;
    case format::Type_Union:
      has_union_ = true;
      pass(field.type_as_Union() && field.type_as_Union()->mode() == sparse_union ? 1 : 2);
      break;
    default: pass(2);
  }
  if (field.children())
    for (const format::Field* child : *field.children()) skip(*child);
}

void Batch::end() const {
  if (has_union_ && meta_.buffers() && buffers_ != meta_.buffers()->size())
    source_.reject("has a column of unions as Arrow wrote them before 1.0, behind which no column can be found");
}

Array read_column(const format::Field& field, Batch& batch, const Dictionaries& dictionaries) {
  const Source& source = batch.source();
  Array out;
  if (const format::DictionaryEncoding* d = field.dictionary()) {
    bool known = true;
    const DType dtype = d->index_type() ? integer_of(*d->index_type(), known) : DType::i32;
    if (!known) source.reject(described(field) + ": numbers of a dictionary's rows of no known width");
    const format::FieldNode node = batch.next_node();
    std::string valid = read_valid(batch.next_buffer(), node, field, source);
    const std::string_view indices = batch.next_buffer();
    need(indices, node.length(), int64_t(size_of(dtype)), field, source);
    const auto from = dictionaries.find(d->id());
    if (from == dictionaries.end())
      source.reject(described(field) + fmt::format(": there is no dictionary {}", d->id()));
    out = gathered(from->second, read_indices(indices, dtype, node.length()), std::move(valid), field, source);
  } else {
    out = read_values(field, batch, 0);
  }
  if (out.rows != batch.rows())
    source.reject(fmt::format("{}: {} rows in a batch of {}", described(field), out.rows, batch.rows()));
  blank(out);
  return out;
}

Array read_dictionary(const format::Field& field, Batch& batch) { return read_values(field, batch, 0); }

Array empty_column(const format::Field& field, const Source& source) {
  const format::Field* f = &field;
  Array out;
  if (const auto kind = layout_of(*f).kind; kind == Layout::Kind::short_lists || kind == Layout::Kind::long_lists) {
    if (field.dictionary()) refuse_type(field, source);
    out.lists = true;
    f = &child_of(*f, source);
  }
  for (int depth = 0; layout_of(*f).kind == Layout::Kind::list; ++depth) {
    const int64_t size = layout_of(*f).size;
    if (size < 1 || depth > 16) refuse_type(field, source);
    out.row.push_back(size);
    f = &child_of(*f, source);
  }
  switch (layout_of(*f).kind) {
    case Layout::Kind::other:
    case Layout::Kind::short_lists:
    case Layout::Kind::long_lists: refuse_type(field, source);
    default: break;
  }
  out.dtype = layout_of(*f).dtype;
  const Spec one{out.row, out.dtype, false, {}};
  if (!has_sound_size(one)) source.reject(described(field) + ": " + describe_size(one));
  return out;
}

}  // namespace rill::arrow
