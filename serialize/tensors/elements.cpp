// See elements.h.
#include "rill/serialize/tensors/elements.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"

namespace rill {

void require_elements(std::string_view op, const Tensor& t, const std::string& name, const Where& where) {
  const std::string what = name.empty() ? "the tensor" : "'" + name + "'";
  require_defined(op, t, what, where);
  if (!t.is_symbolic() || compute_delayed(t)) return;
  fail(op,
       what + " cannot be written while a function is traced; return the value and write it outside. operand: " +
           to_string(t.spec()),
       where);
}

// --- Writing ---------------------------------------------------------------------------------------------------------

Pieces::Pieces(const Tensor& given) : whole_(given.to(Device())) {
  const Tensor& t = whole_;
  if (t.size() == 0) return;
  count_ = cuts_ = 1;
  if (t.is_contiguous()) return;
  constexpr int64_t most = 64 << 20;
  const Shape& shape = t.shape();
  int64_t inner = int64_t(size_of(t.dtype()));  // bytes below the axis that is cut
  axis_ = shape.size() - 1;
  while (axis_ > 0 && inner * shape[axis_].plain() <= most) inner *= shape[axis_--].plain();
  const int64_t n = shape[axis_].plain();
  rows_ = std::clamp<int64_t>(most / inner, 1, n);
  cuts_ = (n + rows_ - 1) / rows_;
  count_ = cuts_;
  for (size_t i = 0; i < axis_; ++i) count_ *= shape[i].plain();
}

// Piece `index`: all of the axes behind axis_, some indices of axis_, one of each before it.
Tensor Pieces::part(int64_t index) const {
  const Shape& shape = whole_.shape();
  const Strides& strides = whole_.strides();
  const int64_t first = index % cuts_ * rows_;
  int64_t outer = index / cuts_, offset = first * strides[axis_];
  for (size_t i = axis_; i-- > 0; outer /= shape[i].plain()) offset += outer % shape[i].plain() * strides[i];
  Shape part_shape;
  Strides part_strides;
  part_shape.push_back(std::min(rows_, shape[axis_].plain() - first));
  part_strides.push_back(strides[axis_]);
  for (size_t i = axis_ + 1; i < shape.size(); ++i) {
    part_shape.push_back(shape[i]);
    part_strides.push_back(strides[i]);
  }
  return make_view(whole_, std::move(part_shape), std::move(part_strides), offset);
}

bool Pieces::next(std::string_view& piece) {
  if (done_ == count_) return false;
  const Tensor* dense = &whole_;
  if (!whole_.is_contiguous()) {
    const Tensor view = part(done_);
    copy_ = empty_tensor(view.spec());
    copy_elements(view, copy_);
    dense = &copy_;
  }
  ++done_;
  piece = {dense->rep()->data, size_t(dense->size()) * size_of(dense->dtype())};
  return true;
}

// --- Reading ---------------------------------------------------------------------------------------------------------

namespace {

// A tensor over a part of `mapping`, which lives as long as the tensor does.
Tensor mapped_tensor(const Spec& spec, const std::shared_ptr<char>& mapping, uint64_t at, size_t bytes) {
  auto* b = new Buffer;
  b->device = spec.device;
  b->data = mapping.get() + at;
  b->bytes = bytes;
  b->owner = new std::shared_ptr<char>(mapping);
  b->release = [](Buffer* buffer) {
    delete static_cast<std::shared_ptr<char>*>(buffer->owner);
    delete buffer;
  };
  return make_tensor(spec, Ref<Buffer>::adopt(b));
}

bool all_bools(const char* bytes, size_t n) {
  return std::all_of(bytes, bytes + n, [](char c) { return c == 0 || c == 1; });
}

// Turns the bytes of each number around.
template <class Word>
void swap_words(char* bytes, size_t n) {
  for (size_t i = 0; i + sizeof(Word) <= n; i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes + i, sizeof word);
    if constexpr (sizeof(Word) == 2) word = __builtin_bswap16(word);
    else if constexpr (sizeof(Word) == 4) word = __builtin_bswap32(word);
    else word = __builtin_bswap64(word);
    std::memcpy(bytes + i, &word, sizeof word);
  }
}

// Of a complex number, each part is a number.
size_t word_size(DType d) { return size_of(real_of(d)); }

}  // namespace

void finish_elements(Tensor& t, bool swapped) {
  char* bytes = t.mutable_rep()->data;
  const size_t n = size_t(t.size()) * size_of(t.dtype());
  if (is_bool(t.dtype()))
    for (size_t i = 0; i < n; ++i) bytes[i] = bytes[i] != 0;
  if (!swapped) return;
  switch (word_size(t.dtype())) {
    case 2: return swap_words<uint16_t>(bytes, n);
    case 4: return swap_words<uint32_t>(bytes, n);
    case 8: return swap_words<uint64_t>(bytes, n);
  }
}

Tensor read_elements(const FileReader& file, const StoredElements& stored, const std::shared_ptr<char>& mapping) {
  const Spec& spec = stored.spec;
  const size_t bytes = size_t(spec.shape.numel()) * size_of(spec.dtype);
  file.require(stored.at, bytes, "the elements of " + to_string(spec));
  const bool as_in_memory = (!stored.swapped || word_size(spec.dtype) == 1) && stored.at % word_size(spec.dtype) == 0;
  if (mapping && bytes && as_in_memory && (!is_bool(spec.dtype) || all_bools(mapping.get() + stored.at, bytes)))
    return mapped_tensor(spec, mapping, stored.at, bytes);
  Tensor t = empty_tensor(spec);
  if (bytes) file.read(stored.at, t.mutable_rep()->data, bytes);
  finish_elements(t, stored.swapped);
  return t;
}

}  // namespace rill
