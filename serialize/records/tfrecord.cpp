// TFRecord files; see records.h. Start at RecordReader::next.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "rill/serialize/files.h"
#include "rill/serialize/records.h"
#include "rill/serialize/records/byte_stream.h"
#include "rill/tensor/moved_from.h"

namespace rill {
namespace {

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += char(value >> 8 * i & 0xFF);
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T(uint8_t(bytes[i])) << 8 * i;
  return value;
}

// How a file that starts so is packed. What a plain file starts with, a length and its sum, settles it.
Packing packing_of(std::string_view start) {
  if (start.size() >= 12 && masked_crc32c(start.substr(0, 8)) == get<uint32_t>(start.substr(8))) return Packing::none;
  if (const Packing marked = packing_by_mark(start); marked != Packing::none) return marked;
  // RFC 1950: method 8, a window of at most 2^15, and a multiple of 31 as a big-endian number.
  if (start.size() >= 2 && (start[0] & 0x0F) == 8 && uint8_t(start[0]) <= 0x78 &&
      (uint8_t(start[0]) * 256 + uint8_t(start[1])) % 31 == 0)
    return Packing::zlib;
  return Packing::none;
}

}  // namespace

std::string record(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  put(out, uint64_t(bytes.size()));
  put(out, masked_crc32c(out));
  out += bytes;
  put(out, masked_crc32c(bytes));
  return out;
}

// --- RecordWriter ----------------------------------------------------------------------------------------------------

struct RecordWriter::Impl {
  static constexpr std::string_view op = "RecordWriter";
  Impl(const std::string& file, RecordWriterOptions o, const Where& where) : path(file), options(o) {
    if (o.level < 0 || o.level > 9) fail(op, "a level of compression is 0 to 9, not " + std::to_string(o.level), where);
    make_folders(std::filesystem::path(path).parent_path().string(), op, where);
    fd = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0) fail_file(op, "cannot make", path, where);
    if (packs() &&
        deflateInit2(&stream, o.level, Z_DEFLATED, window_bits(o.compression), 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      ::close(fd);
      fail(op, "zlib cannot be started", where);
    }
  }
  Impl(const Impl&) = delete;
  ~Impl() {
    try {
      end(Where());
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): a destructor has nobody to tell
    }
  }
  bool packs() const { return options.compression != Compression::none; }
  // Makes room first: a record that is refused, because the disk is full, is not among those that wait.
  void append(std::string_view bytes, const Where& where) {
    if (fd < 0) fail(op, "'" + path + "' is closed", where);
    if (waiting.size() >= 1 << 18) drain(where);
    const std::string framed = record(bytes);
    if (packs()) pack(framed, Z_NO_FLUSH);
    else waiting += framed;
  }
  void pack(std::string_view bytes, int flush) {
    char out[1 << 14];
    do {
      const size_t most = std::min<size_t>(bytes.size(), 1 << 30);                 // zlib counts in 32 bits
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib's type; it only reads
      stream.avail_in = uInt(most);
      do {
        stream.next_out = reinterpret_cast<Bytef*>(out);
        stream.avail_out = sizeof out;
        deflate(&stream, most == bytes.size() ? flush : Z_NO_FLUSH);
        waiting.append(out, sizeof out - stream.avail_out);
      } while (stream.avail_out == 0);
      bytes.remove_prefix(most);
    } while (!bytes.empty());
  }
  void drain(const Where& where) {
    std::string_view rest = waiting;
    while (!rest.empty()) {
      const ssize_t n = ::write(fd, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int reason = errno;
        waiting.erase(0, waiting.size() - rest.size());
        errno = reason;
        fail_file(op, "cannot write", path, where);
      }
      rest.remove_prefix(size_t(n));
    }
    waiting.clear();
  }
  void sync(const Where& where) {
    drain(where);
    if (fsync(fd) != 0 && errno != EINVAL) fail_file(op, "cannot flush", path, where);  // EINVAL: a pipe
  }
  void end(const Where& where) {
    if (fd < 0) return;
    struct Close {
      Impl& i;
      ~Close() {
        if (i.packs()) deflateEnd(&i.stream);
        ::close(std::exchange(i.fd, -1));
      }
    } close_at_the_end{*this};
    if (packs()) pack({}, Z_FINISH);
    sync(where);
  }

  std::string path;
  RecordWriterOptions options;
  int fd = -1;
  std::string waiting;  // to be written
  z_stream stream = {};
};

RecordWriter::RecordWriter(const std::string& path, RecordWriterOptions options, Where where)
    : impl_(std::make_unique<Impl>(path, options, where)) {}
RecordWriter::~RecordWriter() = default;
RecordWriter::RecordWriter(RecordWriter&&) noexcept = default;
RecordWriter& RecordWriter::operator=(RecordWriter&&) noexcept = default;

void RecordWriter::write(std::string_view bytes, Where where) { owned(impl_, Impl::op, where).append(bytes, where); }
void RecordWriter::flush(Where where) {
  Impl& w = owned(impl_, Impl::op, where);
  if (w.fd < 0) return;
  if (w.packs()) w.pack({}, Z_SYNC_FLUSH);
  w.sync(where);
}
void RecordWriter::close(Where where) { owned(impl_, Impl::op, where).end(where); }

// --- RecordReader ----------------------------------------------------------------------------------------------------

struct RecordReader::Impl {
  static constexpr std::string_view op = "RecordReader";
  Impl(const std::string& path, RecordReaderOptions o, const Where& where) : in(path, op, where), options(o) {
    if (o.largest < 0)
      fail(op, "the largest record is to have " + std::to_string(o.largest) + " bytes: 0 or more", where);
  }
  bool next(std::string& bytes, const Where& where);
  bool skip(const Where& where);
  // The length of the next record; nothing at the end, or where the file ends within one.
  std::optional<uint64_t> next_length(std::string& head, const Where& where);
  void look_at_start(const Where& where);
  // The file ends within a record, of which `taken` was read. More of it may come.
  bool cut(const std::string& what, std::string taken, const Where& where) {
    try {
      if (!options.cut_end)
        in.reject("record " + std::to_string(count) + " is cut short: " + what + ". the file is not complete", where);
    } catch (const Error&) {
      in.unread(std::move(taken));
      throw;
    }
    in.unread(std::move(taken));
    return false;
  }
  void check(std::string_view bytes, std::string_view sum, const char* what, const Where& where) {
    if (masked_crc32c(bytes) == get<uint32_t>(sum)) return;
    in.reject("the checksum of the " + std::string(what) + " of record " + std::to_string(count) +
                  " is wrong. the file is damaged, or not a record file",
              where);
  }
  ByteStream in;
  RecordReaderOptions options;
  int64_t count = 0;   // of records before this one
  bool known = false;  // whether the file is packed
};

// Of fewer than 12 bytes, a plain file that is still written, nothing is known but that they may be an empty stream.
void RecordReader::Impl::look_at_start(const Where& where) {
  const std::string_view start = in.start();
  const Packing packing = packing_of(start);
  known = start.size() >= 12 || packing == Packing::zlib;
  if (known && packing != Packing::none) in.unpack(packing, where, ByteStream::AtCut::end);
}

std::optional<uint64_t> RecordReader::Impl::next_length(std::string& head, const Where& where) {
  if (!known) look_at_start(where);
  if (const size_t left = known ? 0 : in.start().size(); !known) {
    if (left) cut("12 bytes of length expected, " + std::to_string(left) + " are left", "", where);
    return {};
  }
  in.read(head, 12, where);
  if (head.empty()) {
    if (in.is_cut()) cut("the packed stream has no end", "", where);
    return {};
  }
  if (head.size() < 12) {
    cut("12 bytes of length expected, " + std::to_string(head.size()) + " are left", head, where);
    return {};
  }
  check(std::string_view(head).substr(0, 8), std::string_view(head).substr(8), "length", where);
  const uint64_t length = get<uint64_t>(head);
  if (length > uint64_t(INT64_MAX) - 4 || !in.may_have(length + 4)) {
    cut(std::to_string(length) + " bytes and a checksum expected, " + std::to_string(in.left()) + " are left", head,
        where);
    return {};
  }
  if (length > uint64_t(options.largest))
    in.reject("record " + std::to_string(count) + " has " + std::to_string(length) + " bytes, and no more than " +
                  std::to_string(options.largest) + " are read. RecordReaderOptions::largest permits more",
              where);
  return length;
}

// Only the length is checked.
bool RecordReader::Impl::skip(const Where& where) {
  std::string head;
  const auto length = next_length(head, where);
  if (!length) return false;
  in.seek(in.offset() + int64_t(*length) + 4, where);
  ++count;
  return true;
}

bool RecordReader::Impl::next(std::string& bytes, const Where& where) {
  std::string head;
  const auto known_length = next_length(head, where);
  if (!known_length) return false;
  const uint64_t length = *known_length;
  bytes.clear();
  in.read(bytes, size_t(length) + 4, where);
  if (bytes.size() < length + 4) {
    const std::string left = std::to_string(bytes.size());
    return cut(std::to_string(length + 4) + " bytes expected, " + left + " are left", head + std::exchange(bytes, ""),
               where);
  }
  check(std::string_view(bytes).substr(0, length), std::string_view(bytes).substr(length), "bytes", where);
  bytes.resize(length);
  ++count;
  return true;
}

RecordReader::RecordReader(const std::string& path, RecordReaderOptions options, Where where)
    : impl_(std::make_unique<Impl>(path, options, where)) {}
RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;
bool RecordReader::next(std::string& bytes, Where where) { return owned(impl_, Impl::op, where).next(bytes, where); }
bool RecordReader::skip(Where where) { return owned(impl_, Impl::op, where).skip(where); }
RecordPlace RecordReader::place() const {
  const Impl& r = owned(impl_, Impl::op, Where());
  return {r.count, r.in.offset()};
}
void RecordReader::go_to(const RecordPlace& place, Where where) {
  Impl& r = owned(impl_, Impl::op, where);
  if (place.number < 0 || place.offset < 0)
    fail(Impl::op,
         "record " + std::to_string(place.number) + " at byte " + std::to_string(place.offset) +
             " is no place in a file. go to one that place() gave",
         where);
  if (!r.known) r.look_at_start(where);
  r.in.seek(place.offset, where);
  r.count = place.number;
}

std::vector<std::string> read_records(const std::string& path, Where where) {
  RecordReader reader(path, {.cut_end = true}, where);
  std::vector<std::string> records;
  for (std::string bytes; reader.next(bytes, where);) records.push_back(bytes);
  return records;
}

}  // namespace rill
