// snapshot: elements that are kept in files of a folder as they are first given, and read again in place of the work.
//
// part-00000, part-00001, ... hold them (element_file.h), each there as a whole or not at all; `seed` says what was drawn
// before here, so that a later program that goes on behind the last part gets what was to come; `end` is there once all
// elements are, and says how many.
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
  }
  std::optional<int64_t> size() const override {
    if (std::filesystem::exists(path("end"))) return numbers_in("end")[0];
    return input()->size();
  }
  CursorPtr open(const Pass& pass) const override { return std::make_unique<Kept>(*this, pass); }
  std::string details() const override { return fmt::format("('{}')", folder_); }

 private:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string part_path(size_t i) const { return path(fmt::format("part-{:05}", i)); }
  std::vector<int64_t> numbers_in(const std::string& name) const {
    const std::string bytes = read_file(path(name), snapshot_op, where());
    StateReader r(bytes);
    std::vector<int64_t> all;
    while (!r.at_end()) all.push_back(r.number());
    if (all.empty()) fail_in(*this, fmt::format("'{}' is empty. remove the folder", path(name)));
    return all;
  }
  void write_numbers(const std::string& name, std::initializer_list<int64_t> numbers) const {
    StateWriter w;
    for (const int64_t n : numbers) w.number(n);
    write_file(path(name), w.bytes, snapshot_op, where());
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
      Item x = input->next();  // what fails is not kept, nor asked for again
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
    // Behind what the parts hold.
    void begin() {
      if (!std::filesystem::exists(stage.path("seed")))
        stage.write_numbers("seed", {int64_t(pass.epoch), int64_t(pass.seed)});
      const std::vector<int64_t> drawn = stage.numbers_in("seed");
      Pass first = pass;
      first.epoch = uint64_t(drawn.front()), first.seed = uint64_t(drawn.back()), first.repeated = false;
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
      stage.write_numbers("end", {given});
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
    size_t which = 0;                       // the part, and how many of its elements were given
    int64_t within = 0, given = 0;
    int64_t read = 0;  // elements of the input that stand for what was given
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
