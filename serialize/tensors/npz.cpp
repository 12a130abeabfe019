// A .npz file: a zip file whose members are .npy files. libzip reads and writes the zip; what a member says of itself
// is checked against the file before memory is taken for it. Start at save_npz and load_npz.
#include <unistd.h>
#include <zip.h>

#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

#include "rill/devices/registry.h"
#include "rill/serialize/tensors/npy.h"
#include "rill/serialize/utf8.h"

namespace rill {
namespace {

struct Discard {
  void operator()(zip_t* z) const { zip_discard(z); }
  void operator()(zip_file_t* f) const { zip_fclose(f); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

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
  explicit MemberSource(NpyArray array) : array_(std::move(array)) { zip_error_init(&error_); }
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
        rest_ = array_.header;
        pieces_.emplace(array_.elements);
        return 0;
      case ZIP_SOURCE_READ: return read(static_cast<char*>(data), length);
      case ZIP_SOURCE_CLOSE: pieces_.reset(); return 0;
      case ZIP_SOURCE_STAT: {
        auto* facts = static_cast<zip_stat_t*>(data);
        zip_stat_init(facts);
        facts->size = array_.bytes();
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
    while (done < length && (!rest_.empty() || pieces_->next(rest_))) {
      const size_t n = std::min<size_t>(rest_.size(), length - done);
      std::memcpy(out + done, rest_.data(), n);
      rest_.remove_prefix(n);
      done += n;
    }
    return zip_int64_t(done);
  }

  NpyArray array_;
  std::optional<Pieces> pieces_;
  std::string_view rest_;
  zip_error_t error_;
};

void add_member(const SaveRequest& request, zip_t* z, const std::string& name, const Tensor& t) {
  const std::string member = name + ".npy";
  const bool is_text =
      is_utf8(name) && std::none_of(name.begin(), name.end(), [](char c) {
        return c >= 0 && c < ' ' && c != '\t' && c != '\n' && c != '\r';  // libzip takes no other control characters
      });
  if (member.size() > 65535 || !is_text)
    request.reject("a name in a zip file is UTF-8 text of at most 65531 bytes, without control characters. '" +
                   name.substr(0, 80) + "' is not");
  auto* member_source = new MemberSource(to_npy(request, name, t));
  zip_source_t* source = zip_source_function(z, &MemberSource::call, member_source);
  if (!source) {
    delete member_source;
    request.reject(zip_strerror(z));
  }
  const zip_int64_t index = zip_file_add(z, member.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    request.reject(zip_strerror(z));
  }
  constexpr zip_uint16_t midnight = 0, day_1980_01_01 = 1 << 5 | 1;  // as numpy: equal tensors make equal files
  const zip_int32_t method = request.options.compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE;
  if (zip_set_file_compression(z, zip_uint64_t(index), method, 0) != 0 ||
      zip_file_set_dostime(z, zip_uint64_t(index), midnight, day_1980_01_01, 0) != 0)
    request.reject(zip_strerror(z));
}

// --- Reading ---------------------------------------------------------------------------------------------------------

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

std::string key_of(std::string key) {
  if (key.ends_with(".npy")) key.resize(key.size() - 4);
  return key;
}

// One member of an archive.
struct Member {
  const FileReader& file;
  zip_t* archive;
  zip_uint64_t index;
  std::string name;
  zip_stat_t facts = {};

  [[noreturn]] void reject(const std::string& what) const {
    file.reject("member '" + name.substr(0, 80) + "': " + what);
  }
  [[noreturn]] void reject(uint64_t at, const std::string& what) const {
    reject("at byte " + std::to_string(at) + ": " + what);
  }
};

// Looks at what the directory says of member `index`.
Member look_at(const FileReader& file, zip_t* archive, zip_uint64_t index) {
  Member m{file, archive, index, name_of(archive, index)};
  constexpr zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(archive, index, 0, &m.facts) != 0 || (m.facts.valid & needed) != needed)
    file.reject("member " + std::to_string(index) + " of the zip file has no directory entry that can be read");
  if (m.facts.comp_size > file.size())
    m.reject("expected at most the " + std::to_string(file.size()) + " bytes of the file, and it says " +
             std::to_string(m.facts.comp_size));
  // Deflate makes 258 bytes of two bits at most.
  constexpr zip_uint64_t most_growth = 1032, margin = 1 << 16;
  const bool stored = m.facts.comp_method == ZIP_CM_STORE;
  if (stored ? m.facts.size != m.facts.comp_size : m.facts.size > m.facts.comp_size * most_growth + margin)
    m.reject("its " + std::to_string(m.facts.comp_size) + " bytes cannot hold the " + std::to_string(m.facts.size) +
             " that it says");
  return m;
}

// Reads bytes in order.
class MemberReader {
 public:
  explicit MemberReader(const Member& m) : member_(m), in_(zip_fopen_index(m.archive, m.index, 0)) {
    if (!in_) m.reject(zip_strerror(m.archive));
  }
  void read(uint64_t at, void* to, uint64_t bytes) {
    for (auto* out = static_cast<char*>(to); bytes;) {
      const zip_int64_t n = zip_fread(in_.get(), out, std::min<uint64_t>(bytes, 1 << 24));
      if (n < 0) member_.reject(at, zip_file_strerror(in_.get()));
      if (n == 0) member_.reject(at, "expected " + std::to_string(bytes) + " more bytes, and it ends");
      out += n;
      at += uint64_t(n);
      bytes -= uint64_t(n);
    }
  }
  // At the end libzip compares the checksum.
  void finish() {
    char more = 0;
    const zip_int64_t n = zip_fread(in_.get(), &more, 1);
    if (n < 0) member_.reject(zip_file_strerror(in_.get()));
    if (n > 0) member_.reject(member_.facts.size, "expected the end");
  }

 private:
  const Member& member_;
  std::unique_ptr<zip_file_t, Discard> in_;
};

Tensor read_member(const Member& m) {
  MemberReader in(m);
  NpySource source;
  source.bytes = m.facts.size;
  source.reject = [&](uint64_t at, const std::string& what) { m.reject(at, what); };
  source.read = [&](uint64_t at, void* to, uint64_t bytes) { in.read(at, to, bytes); };
  source.read_elements = [&](const StoredElements& stored) {
    Tensor t = empty_tensor(stored.spec);
    in.read(stored.at, t.mutable_rep()->data, size_t(t.size()) * size_of(t.dtype()));
    finish_elements(t, stored.swapped);
    return t;
  };
  Tensor t = read_npy(source);
  in.finish();
  return t;
}

}  // namespace

void save_npz(const SaveRequest& request, const NamedTensors& tensors) {
  FileWriter out(request.path, "save", request.where);
  if (tensors.empty()) {  // of which libzip makes no file: the end of a directory without entries
    out.write(std::string("PK\5\6", 4) + std::string(18, '\0'));
    return out.commit();
  }
  int error = 0;
  Archive archive(zip_open(out.part().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) request.reject(text_of(error));
  for (const auto& [name, t] : tensors) add_member(request, archive.get(), name, t);
  if (zip_close(archive.get()) != 0) request.reject(std::string("cannot be written: ") + zip_strerror(archive.get()));
  std::ignore = archive.release();  // closed
  out.commit();
}

NamedTensors load_npz(const LoadRequest& request) {
  const FileReader& file = request.file;
  check_directory(file);
  int error = 0;
  const int fd = file.duplicate();  // by the name libzip might open another file that has taken it
  Archive archive(zip_fdopen(fd, ZIP_RDONLY, &error));
  if (!archive) {
    close(fd);
    file.reject(text_of(error) + ". expected a zip file of .npy files");
  }
  NamedTensors out;
  uint64_t packed = 0;
  const auto n = zip_uint64_t(zip_get_num_entries(archive.get(), 0));
  for (zip_uint64_t i = 0; i < n; ++i) {
    const Member m = look_at(file, archive.get(), i);
    packed += m.facts.comp_size;
    if (packed > file.size()) m.reject("expected members that do not overlap");
    const std::string key = key_of(m.name);
    if (m.name.ends_with('/') && m.facts.size == 0) continue;  // a folder
    if (!request.wants(key)) continue;
    if (out.count(key)) m.reject("a second array of the name '" + key + "'");
    out.emplace(key, read_member(m));
  }
  return out;
}

}  // namespace rill
