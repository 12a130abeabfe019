// snapshot: elements that are stored in files of a folder when they are first computed, and then read instead.
//
// part-00000, part-00001, ... hold them (element_file.h), each there as a whole or not at all; `seed` says what was drawn
// before here, so that a later program that goes on behind the last part gets what was to come, and by which stages, so
// that another pipeline's folder is known; `end` is there once all elements are, and says how many, and of how many that
// were read.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "rill/data/engine/element_file.h"
#include "rill/data/stages/stages.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data::stages {
namespace {

using Part = std::shared_ptr<const ElementReader>;
constexpr const char* snapshot_op = "data::snapshot";

class Snapshot final : public Stage {
 public:
  Snapshot(StagePtr input, std::string folder, const SnapshotOptions& o, const detail::Codec& codec, const Where& where)
      : Stage("snapshot", where, {std::move(input)}), folder_(std::move(folder)), options_(o), codec_(codec) {
    if (!codec.save)
      fail(snapshot_op,
           "elements of this type cannot be kept in files, which hold tensors, numbers, strings, and pairs, tuples, "
           "vectors and structs of them. map() to such",
           where);
    if (o.file_bytes < 1) fail(snapshot_op, fmt::format("file_bytes is {} and must be 1 or more", o.file_bytes), where);
    make_folders(folder_, snapshot_op, this->where());
    if (std::filesystem::exists(path("seed"))) require_own_stages();
    if (std::filesystem::exists(path("end"))) require_own_size();
  }
  std::optional<int64_t> size() const override {
    if (std::filesystem::exists(path("end"))) return end().given;
    return input()->size();
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Kept>(*this, pass); }
  std::string details() const override { return fmt::format("('{}')", folder_); }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string part_path(size_t i) const { return path(fmt::format("part-{:05}", i)); }
  struct Drawn {
    uint64_t epoch = 0, seed = 0;
    std::string stages;  // empty in folders of older programs
  };
  struct End {
    int64_t given = 0, read = -1;  // -1 in folders of older programs
  };
  template <class F>
  void read_small(const std::string& name, F&& read) const {
    const std::string bytes = read_file(path(name), snapshot_op, where());
    try {
      StateReader r(bytes);
      read(r);
    } catch (const Error&) {
      fail_in(*this, fmt::format("'{}' is damaged. remove the folder to have it made again", path(name)));
    }
  }
  Drawn drawn() const {
    Drawn d;
    read_small("seed", [&](StateReader& r) {
      d.epoch = uint64_t(r.number()), d.seed = uint64_t(r.number());
      if (!r.at_end()) d.stages = r.text();
    });
    return d;
  }
  End end() const {
    End e;
    read_small("end", [&](StateReader& r) {
      e.given = r.count();
      if (!r.at_end()) e.read = r.count();
    });
    return e;
  }
  void require_own_stages() const {
    const std::string then = drawn().stages, now = names_of(*input());
    if (!then.empty() && then != now)
      fail_in(*this,
              fmt::format("'{}' holds the elements of another pipeline, {}. this one is {}. remove the folder to "
                          "have it made again",
                          folder_, then, now));
  }
  void require_own_size() const {
    const std::optional<int64_t> wanted = input()->size();
    const int64_t read = end().read;
    if (wanted && read >= 0 && read != *wanted)
      fail_in(*this,
              fmt::format("'{}' holds what was made of {} elements, and those before it are {}: the pipeline was "
                          "another one. remove the folder to have it made again",
                          folder_, read, *wanted));
  }
  // The first pass determines the draws.
  Drawn drawn_by(const Pass& pass) const {
    if (!std::filesystem::exists(path("seed"))) {
      StateWriter w;
      w.number(int64_t(pass.epoch)), w.number(int64_t(pass.seed)), w.text(names_of(*input()));
      write_file(path("seed"), w.bytes, snapshot_op, where());
    }
    return drawn();
  }
  void write_end(int64_t given, int64_t read) const {
    StateWriter w;
    w.number(given), w.number(read);
    write_file(path("end"), w.bytes, snapshot_op, where());
  }
  // The i-th part, or null where it is not there (yet).
  Part part(size_t i) const {
    const std::lock_guard lock(mutex_);
    if (i < parts_.size()) return parts_[i];
    if (!std::filesystem::exists(part_path(i))) return nullptr;
    return parts_.emplace_back(std::make_shared<const ElementReader>(part_path(i), codec_, snapshot_op, where()));
  }

  struct Kept final : Cursor {
    Kept(const Snapshot& s, const Pass& p) : Cursor(s), stage(s), pass(p) {}
    Item next() override {
      for (; Part now = input ? nullptr : stage.part(which); ++which, within = 0) {
        read = now->read();
        if (within < now->count()) return ++given, now->at(within++);
      }
      if (ended) return {};
      if (!input && std::filesystem::exists(stage.path("end"))) return {};
      if (!input) begin();
      ++read;
      Item x = input->next();  // a failed element is not stored, nor computed again
      if (!x) {
        --read;
        end();
        return x;
      }
      ++given;
      if (!writer)
        writer = std::make_unique<ElementWriter>(stage.part_path(which), stage.codec_, snapshot_op, stage.where());
      writer->add(x);
      if (writer->bytes() >= stage.options_.file_bytes) commit();
      return x;
    }
    // After the elements of the parts.
    void begin() {
      const Drawn drawn = stage.drawn_by(pass);
      Pass first = pass;
      first.epoch = drawn.epoch, first.seed = drawn.seed, first.repeated = false;
      input = stage.input()->begin(first);
      input->skip(read);
    }
    void commit() {
      if (writer) writer->commit(read);
      writer.reset();
      ++which;
    }
    void end() {
      ended = true;
      if (writer) commit();
      stage.write_end(given, read);
    }
    int64_t skip(int64_t n) override {
      int64_t gone = 0;
      for (Part now; gone < n && !input && (now = stage.part(which));) {
        const int64_t here = std::min(n - gone, now->count() - within);
        gone += here, within += here, given += here, read = now->read();
        if (within == now->count()) ++which, within = 0;
      }
      return gone + (gone < n ? Cursor::skip(n - gone) : 0);
    }
    void save(StateWriter& w) const override { w.number(given); }
    void restore(StateReader& r) override {
      const int64_t n = r.count();
      input.reset(), writer.reset();
      which = 0, within = given = read = 0, ended = false;
      while (given < n)
        if (skip(n - given) == 0) fail("Iterator.restore", "the snapshot has fewer elements than it had");
    }
    const Snapshot& stage;
    Pass pass;
    CursorPtr input;                        // once the parts have been given
    std::unique_ptr<ElementWriter> writer;  // of part `which`
    size_t which = 0;                       // the part, and how many of its elements were returned
    int64_t within = 0, given = 0;
    int64_t read = 0;  // the elements of the input for those returned
    bool ended = false;
  };

  std::string folder_;
  SnapshotOptions options_;
  detail::Codec codec_;
  mutable ForkMutex mutex_;
  mutable std::vector<Part> parts_;
};

}  // namespace

StagePtr snapshot(StagePtr input, const std::string& folder, const SnapshotOptions& o, const detail::Codec& codec,
                  const Where& where) {
  return std::make_shared<Snapshot>(std::move(input), folder, o, codec, where);
}

}  // namespace rill::data::stages
