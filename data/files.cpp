// Sources that read files; see sources.h.
#include <fmt/format.h>
#include <fnmatch.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "rill/data/sources.h"
#include "rill/ops/ops.h"
#include "rill/serialize/files.h"
#include "rill/serialize/records.h"

namespace rill::data {
namespace {

namespace fs = std::filesystem;

Item text_item(std::string_view s) { return Item::of(tensor(std::string(s), {.device = Device()})); }

// --- list_files ------------------------------------------------------------------------------------------------------

bool is_pattern(const std::string& part) { return part.find_first_of("*?[") != std::string::npos; }

// Adds what the pattern's parts from `at` on match below `folder`. "**" stands for folders of any depth, or none.
void match(const fs::path& folder, const std::vector<std::string>& parts, size_t at, std::vector<std::string>& found) {
  std::error_code unknown;
  if (at == parts.size()) return;
  const bool last = at + 1 == parts.size();
  const std::string& part = parts[at];
  if (!is_pattern(part)) {
    const fs::path next = folder / part;
    if (!fs::exists(next, unknown)) return;
    if (last) found.push_back(next.string());
    else match(next, parts, at + 1, found);
    return;
  }
  const fs::path where = folder.empty() ? fs::path(".") : folder;
  if (part == "**") match(folder, parts, at + 1, found);
  for (const fs::directory_entry& e :
       fs::directory_iterator(where, fs::directory_options::skip_permission_denied, unknown)) {
    const std::string name = e.path().filename().string();
    const bool is_folder = e.is_directory(unknown);
    if (part == "**") {
      if (is_folder && !e.is_symlink(unknown) && name[0] != '.') match(folder / name, parts, at, found);
    } else if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
      if (!last) {
        if (is_folder) match(folder / name, parts, at + 1, found);
      } else if (!is_folder) {
        found.push_back((folder / name).string());
      }
    }
  }
}

std::vector<std::string> matches(const std::string& pattern, const Where& where) {
  std::vector<std::string> parts, found;
  for (const fs::path& p : fs::path(pattern).relative_path()) parts.push_back(p.string());
  match(fs::path(pattern).root_path(), parts, 0, found);
  if (found.empty())
    fail("data::list_files",
         fmt::format("no file matches '{}'. a pattern is as the shell's: *, ?, [abc], and ** for folders of any depth",
                     pattern),
         where);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// --- Lines -----------------------------------------------------------------------------------------------------------

class Lines final : public Stage {
 public:
  Lines(std::string path, const Where& where) : Stage("lines", where), path_(std::move(path)) {}
  CursorPtr open(const Pass&) const override { return std::make_unique<Reading>(*this); }

 private:
  struct Reading final : Cursor {
    explicit Reading(const Lines& s) : Cursor(s), stage(s), file(gzopen(s.path_.c_str(), "rb")) {
      if (!file) fail_file("data::text_lines", "cannot read", stage.path_, stage.where());
      gzbuffer(file, 1 << 17);
    }
    ~Reading() override { gzclose(file); }
    Item next() override {
      std::string line;
      if (ended || !read(line)) return {};
      return text_item(line);
    }
    // gzgets() would end a line at a zero byte as well; gzgetc() is a macro over the same buffer.
    bool read(std::string& line) {
      errno = 0;
      for (;;) {
        const int c = gzgetc(file);
        if (c == '\n') break;
        if (c != -1) {
          line += char(c);
          continue;
        }
        check();
        if (line.empty()) return false;
        break;
      }
      if (line.ends_with('\r')) line.pop_back();
      return true;
    }
    void check() {
      int code = Z_OK;
      const char* why = gzerror(file, &code);
      if (code == Z_OK || code == Z_STREAM_END) return;
      ended = true;  // nothing behind it can be read
      fail("data::text_lines",
           fmt::format("'{}' at byte {} of what is unpacked: {}", stage.path_, int64_t(gztell(file)),
                       code == Z_ERRNO ? std::strerror(errno) : why),
           stage.where());
    }
    void save(StateWriter& w) const override { w.number(int64_t(gztell(file))); }
    void restore(StateReader& r) override {
      const int64_t at = r.count();
      if (gzseek(file, z_off_t(at), SEEK_SET) != at)
        fail("Iterator.restore", fmt::format("'{}' ends before byte {}, where the pass stood", stage.path_, at),
             stage.where());
    }
    const Lines& stage;
    gzFile file;
    bool ended = false;
  };
  std::string path_;
};

// --- Records ---------------------------------------------------------------------------------------------------------

class Records final : public Stage {
 public:
  Records(std::string path, const Where& where) : Stage("records", where), path_(std::move(path)) {}
  CursorPtr open(const Pass&) const override { return std::make_unique<Reading>(*this); }

 private:
  struct Reading final : Cursor {
    explicit Reading(const Records& s) : Cursor(s), stage(s), reader(s.path_, {}, s.where()) {}
    Item next() override {
      if (ended) return {};
      ended = true;  // where it throws, nothing behind it can be read
      if (!reader.next(bytes, stage.where())) return {};
      ended = false;
      ++number;
      return text_item(bytes);
    }
    int64_t skip(int64_t n) override {
      int64_t gone = 0;
      for (; gone < n && reader.next(bytes, stage.where()); ++gone) ++number;
      return gone;
    }
    void save(StateWriter& w) const override { w.number(number); }
    void restore(StateReader& r) override {
      reader = RecordReader(stage.path_, {}, stage.where());
      number = 0;
      const int64_t n = r.count();
      if (skip(n) < n)
        fail("Iterator.restore", fmt::format("'{}' has fewer than the {} records it had", stage.path_, n),
             stage.where());
    }
    const Records& stage;
    RecordReader reader;
    std::string bytes;
    int64_t number = 0;
    bool ended = false;
  };
  std::string path_;
};

// The elements of one file after the other's. A file that cannot be read is an error when its turn comes.
template <class File>
Dataset<Tensor> of_files(const char* name, const std::vector<std::string>& paths, const Where& where) {
  if (paths.empty()) fail(fmt::format("data::{}", name), "there are no files", where);
  std::vector<Item> items;
  for (const std::string& p : paths) items.push_back(Item::of(p));
  const Where at = caller_or(where);
  return Dataset<Tensor>(stages::flat_map(
      name, stages::from_items("files", std::move(items), at),
      [at](Item& path) -> StagePtr { return std::make_shared<File>(path.as<std::string>(), at); }, at));
}

}  // namespace

Dataset<Tensor> list_files(const std::vector<std::string>& patterns, const ListFilesOptions& o, Where where) {
  const CallerScope caller(where);
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns)
    for (std::string& path : matches(pattern, where)) paths.push_back(std::move(path));
  std::vector<Item> items;
  for (const std::string& path : paths) items.push_back(text_item(path));
  const Dataset<Tensor> all(stages::from_items("list_files", std::move(items), where));
  return o.shuffle ? all.shuffle({.seed = o.seed}, where) : all;
}
Dataset<Tensor> list_files(const std::string& pattern, const ListFilesOptions& o, Where where) {
  return list_files(std::vector<std::string>{pattern}, o, where);
}

Dataset<Tensor> text_lines(const std::vector<std::string>& paths, Where where) {
  return of_files<Lines>("text_lines", paths, where);
}
Dataset<Tensor> text_lines(const std::string& path, Where where) {
  return text_lines(std::vector<std::string>{path}, where);
}
Dataset<Tensor> tfrecords(const std::vector<std::string>& paths, Where where) {
  return of_files<Records>("tfrecords", paths, where);
}
Dataset<Tensor> tfrecords(const std::string& path, Where where) {
  return tfrecords(std::vector<std::string>{path}, where);
}

}  // namespace rill::data

namespace rill {

Tensor read_file(const Tensor& path, Where where) {
  const CallerScope caller(where);
  if (path.dtype() != DType::string)
    fail("read_file", fmt::format("takes paths, strings. got {}", to_string(path.spec())), where);
  std::vector<std::string> all;
  for (const std::string& p : path.to_vector<std::string>())
    all.push_back(read_file(p, "read_file", where, Accepts::streams));
  return reshape(tensor(all, {.device = Device()}), path.shape());
}

void write_file(const std::string& path, const Tensor& bytes, Where where) {
  const CallerScope caller(where);
  if (bytes.dtype() != DType::string || bytes.size() != 1)
    fail("write_file", fmt::format("takes one string, the file's bytes. got {}", to_string(bytes.spec())), where);
  write_file(path, bytes.item<std::string>(), "write_file", where);
}

}  // namespace rill
