// Zip files by libzip, whose directory is checked before a member is read; see zip_archive.h.
#include "rill/serialize/zip_archive.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "rill/serialize/tensors/elements.h"
#include "rill/serialize/utf8.h"
#include "rill/tensor/fork_mutex.h"

namespace rill {
namespace {

std::string text_of(int code) {
  zip_error_t e;
  zip_error_init_with_code(&e, code);
  std::string text = zip_error_strerror(&e);
  zip_error_fini(&e);
  return text;
}

// --- Writing ---------------------------------------------------------------------------------------------------------

// Gives libzip a member's bytes as it asks for them.
class MemberSource {
 public:
  explicit MemberSource(std::unique_ptr<MemberBytes> bytes) : bytes_(std::move(bytes)) { zip_error_init(&error_); }
  ~MemberSource() { zip_error_fini(&error_); }
  MemberSource(const MemberSource&) = delete;

  static zip_int64_t call(void* self, void* data, zip_uint64_t length, zip_source_cmd_t command) {
    auto* m = static_cast<MemberSource*>(self);
    try {
      return m->answer(data, length, command);
    } catch (...) {  // no exception crosses libzip: memory for a piece is missing
      zip_error_set(&m->error_, ZIP_ER_MEMORY, 0);
      return -1;
    }
  }

 private:
  zip_int64_t answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_OPEN:
        bytes_->start();
        rest_ = {};
        return 0;
      case ZIP_SOURCE_READ: return read(static_cast<char*>(data), length);
      case ZIP_SOURCE_CLOSE: return 0;
      case ZIP_SOURCE_STAT: {
        auto* facts = static_cast<zip_stat_t*>(data);
        zip_stat_init(facts);
        facts->size = bytes_->size();
        facts->valid = ZIP_STAT_SIZE;
        return sizeof *facts;
      }
      case ZIP_SOURCE_ERROR: return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_FREE: delete this; return 0;
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
      default: zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
  }
  zip_int64_t read(char* out, zip_uint64_t length) {
    zip_uint64_t done = 0;
    while (done < length && (!rest_.empty() || bytes_->next(rest_))) {
      const size_t n = std::min<size_t>(rest_.size(), length - done);
      std::memcpy(out + done, rest_.data(), n);
      rest_.remove_prefix(n);
      done += n;
    }
    return zip_int64_t(done);
  }

  std::unique_ptr<MemberBytes> bytes_;
  std::string_view rest_;
  zip_error_t error_;
};

}  // namespace

ZipWriter::ZipWriter(const std::string& part, const Callback<void(const std::string&)>& reject) : reject_(reject) {
  int error = 0;
  archive_ = zip_open(part.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
  if (!archive_) reject_(text_of(error));
}
ZipWriter::~ZipWriter() {
  if (archive_) zip_discard(archive_);
}

bool ZipWriter::is_name(const std::string& name) {
  constexpr size_t longest = 65535;
  return name.size() <= longest && is_utf8(name) && std::none_of(name.begin(), name.end(), [](char c) {
           return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';  // libzip takes no other control characters
         });
}

void ZipWriter::add(const std::string& name, std::unique_ptr<MemberBytes> bytes, bool compress) {
  auto* member_source = new MemberSource(std::move(bytes));
  zip_source_t* source = zip_source_function(archive_, &MemberSource::call, member_source);
  if (!source) {
    delete member_source;
    reject_(zip_strerror(archive_));
  }
  const zip_int64_t index = zip_file_add(archive_, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    reject_(zip_strerror(archive_));
  }
  constexpr zip_uint16_t midnight = 0, day_1980_01_01 = 1 << 5 | 1;  // as numpy
  const zip_int32_t method = compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
  if (zip_set_file_compression(archive_, zip_uint64_t(index), method, 0) != 0 ||
      zip_file_set_dostime(archive_, zip_uint64_t(index), midnight, day_1980_01_01, 0) != 0)
    reject_(zip_strerror(archive_));
}

void ZipWriter::close() {
  const ForkDelay no_fork;  // libzip takes random numbers of a library with locks of its own
  if (zip_close(archive_) != 0) reject_(std::string("cannot be written: ") + zip_strerror(archive_));
  archive_ = nullptr;
}

// --- Reading ---------------------------------------------------------------------------------------------------------

namespace {

// libzip takes memory for as many members as the end of the directory says: a file cannot have more than fit into it.
void check_directory(const FileReader& file) {
  constexpr uint64_t entry_bytes = 46, end_bytes = 22, longest_comment = 65535, locator_bytes = 20, end64_bytes = 56;
  const uint64_t n = std::min(file.size(), longest_comment + end_bytes + locator_bytes);
  const std::string tail = file.read(file.size() - n, n);
  for (size_t at = tail.find("PK\5\6"); at != tail.npos; at = tail.find("PK\5\6", at + 1)) {
    if (tail.size() - at < end_bytes) break;
    uint64_t members = little_endian<uint16_t>(&tail[at + 10]);
    if (at >= locator_bytes && tail.compare(at - locator_bytes, 4, "PK\6\7") == 0) {
      const auto end64 = little_endian<uint64_t>(&tail[at - locator_bytes + 8]);
      if (end64 < file.size() && file.size() - end64 >= end64_bytes)
        members = std::max(members, little_endian<uint64_t>(&file.read(end64, end64_bytes)[32]));
    }
    if (members > file.size() / entry_bytes)
      file.reject(file.size() - n + at, "a directory of " + std::to_string(members) + " members does not fit into " +
                                            std::to_string(file.size()) + " bytes");
  }
}

// The name as the file has it where that is UTF-8; in old files it is code page 437.
std::string name_of(zip_t* archive, zip_uint64_t index) {
  const char* raw = zip_get_name(archive, index, ZIP_FL_ENC_RAW);
  if (raw && is_utf8(raw)) return raw;
  const char* converted = zip_get_name(archive, index, ZIP_FL_ENC_GUESS);
  return converted ? converted : "";
}

}  // namespace

ZipReader::ZipReader(const FileReader& file, const std::string& expected) : file_(file) {
  check_directory(file);
  int error = 0;
  const int fd = file.duplicate();  // by the name libzip might open another file that has taken it
  archive_ = zip_fdopen(fd, ZIP_RDONLY, &error);
  if (archive_) return;
  ::close(fd);
  file.reject(text_of(error) + ". expected " + expected);
}
ZipReader::~ZipReader() { zip_discard(archive_); }
uint64_t ZipReader::count() const { return uint64_t(zip_get_num_entries(archive_, 0)); }

void ZipReader::Member::reject(const std::string& what) const {
  file_->reject("member '" + name_.substr(0, 80) + "': " + what);
}
void ZipReader::Member::reject(uint64_t at, const std::string& what) const {
  reject("at byte " + std::to_string(at) + ": " + what);
}

ZipReader::Member ZipReader::next(uint64_t index) {
  Member m;
  m.file_ = &file_;
  m.archive_ = archive_;
  m.index_ = index;
  m.name_ = name_of(archive_, index);
  zip_stat_t facts = {};
  constexpr zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(archive_, index, 0, &facts) != 0 || (facts.valid & needed) != needed)
    file_.reject("member " + std::to_string(index) + " of the zip file has no directory entry that can be read");
  if (facts.comp_size > file_.size())
    m.reject("expected at most the " + std::to_string(file_.size()) + " bytes of the file, and it says " +
             std::to_string(facts.comp_size));
  // Deflate makes 258 bytes of two bits at most.
  constexpr zip_uint64_t most_growth = 1032, margin = 1 << 16;
  const bool stored = facts.comp_method == ZIP_CM_STORE;
  if (stored ? facts.size != facts.comp_size : facts.size > facts.comp_size * most_growth + margin)
    m.reject("its " + std::to_string(facts.comp_size) + " bytes cannot hold the " + std::to_string(facts.size) +
             " that it says");
  packed_ += facts.comp_size;
  if (packed_ > file_.size()) m.reject("expected members that do not overlap");
  m.size_ = facts.size;
  return m;
}

ZipReader::Member::Stream::Stream(const Member& m) : member_(m), in_(zip_fopen_index(m.archive_, m.index_, 0)) {
  if (!in_) m.reject(zip_strerror(m.archive_));
}
ZipReader::Member::Stream::~Stream() { zip_fclose(in_); }

void ZipReader::Member::Stream::read(uint64_t at, void* to, uint64_t bytes) {
  for (auto* out = static_cast<char*>(to); bytes;) {
    const zip_int64_t n = zip_fread(in_, out, std::min<uint64_t>(bytes, 1 << 24));
    if (n < 0) member_.reject(at, zip_file_strerror(in_));
    if (n == 0) member_.reject(at, "expected " + std::to_string(bytes) + " more bytes, and it ends");
    out += n;
    at += uint64_t(n);
    bytes -= uint64_t(n);
  }
}

void ZipReader::Member::Stream::finish() {
  char more = 0;
  const zip_int64_t n = zip_fread(in_, &more, 1);
  if (n < 0) member_.reject(zip_file_strerror(in_));
  if (n > 0) member_.reject(member_.size_, "expected the end");
}

std::string ZipReader::Member::read() const {
  Stream in(*this);
  std::string bytes(size_, '\0');
  in.read(0, bytes.data(), size_);
  in.finish();
  return bytes;
}

}  // namespace rill
