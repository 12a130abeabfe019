// A .npz file: a zip file whose members are .npy files. Start at save_npz and load_npz.
#include <optional>

#include "rill/devices/registry.h"
#include "rill/serialize/tensors/npy.h"
#include "rill/serialize/zip_archive.h"

namespace rill {
namespace {

// --- Writing ---------------------------------------------------------------------------------------------------------

class NpyBytes final : public MemberBytes {
 public:
  explicit NpyBytes(NpyArray array) : array_(std::move(array)) {}
  uint64_t size() const override { return array_.bytes(); }
  void start() override {
    header_is_next_ = true;
    pieces_.emplace(array_.elements);
  }
  bool next(std::string_view& piece) override {
    if (!std::exchange(header_is_next_, false)) return pieces_->next(piece);
    piece = array_.header;
    return true;
  }

 private:
  NpyArray array_;
  bool header_is_next_ = true;
  std::optional<Pieces> pieces_;
};

// --- Reading ---------------------------------------------------------------------------------------------------------

std::string key_of(std::string key) {
  if (key.ends_with(".npy")) key.resize(key.size() - 4);
  return key;
}

Tensor read_member(const ZipReader::Member& m) {
  ZipReader::Member::Stream in(m);
  NpySource source;
  source.bytes = m.size();
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
  const Callback<void(const std::string&)> reject = [&](const std::string& what) { request.reject(what); };
  ZipWriter archive(out.part(), reject);
  for (const auto& [name, t] : tensors) {
    if (!ZipWriter::is_name(name + ".npy"))
      request.reject("a name in a zip file is UTF-8 text of at most 65531 bytes, without control characters. '" +
                     name.substr(0, 80) + "' is not");
    archive.add(name + ".npy", std::make_unique<NpyBytes>(to_npy(request, name, t)), request.options.compress);
  }
  archive.close();
  out.commit();
}

NamedTensors load_npz(const LoadRequest& request) {
  ZipReader archive(request.file, "a zip file of .npy files");
  NamedTensors out;
  for (uint64_t i = 0; i < archive.count(); ++i) {
    const ZipReader::Member m = archive.next(i);
    const std::string key = key_of(m.name());
    if (m.name().ends_with('/') && m.size() == 0) continue;  // a folder
    if (!request.wants(key)) continue;
    if (out.count(key)) m.reject("a second array of the name '" + key + "'");
    request.add(out, key, [&] { return read_member(m); });
  }
  return out;
}

}  // namespace rill
