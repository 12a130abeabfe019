// TensorRep's construction and destruction, and the members of Tensor that need no op.
#include "rill/tensor/tensor.h"

#include "rill/tensor/delayed.h"
#include "rill/tensor/id_mark.h"
#include "rill/tensor/per_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <new>

namespace rill {

// --- Reps: recycled through a list per thread, since every eager call makes and drops one ----------------------------

namespace {
struct FreeRep {
  FreeRep* next;
};
// Plain thread-locals, so that access needs no guard; RepListOwner frees the list when its thread ends.
thread_local constinit FreeRep* free_reps = nullptr;
thread_local constinit int free_rep_count = 0;
thread_local constinit bool thread_is_ending = false;
#ifdef RILL_SANITIZED
constexpr int max_free_reps = 0;  // so that sanitizers see uses after free
#else
constexpr int max_free_reps = 4096;
#endif

struct RepListOwner {
  bool engaged = false;
  ~RepListOwner() {
    thread_is_ending = true;
    while (free_reps) {
      FreeRep* next = free_reps->next;
      ::operator delete(free_reps);
      free_reps = next;
    }
  }
};
thread_local RepListOwner rep_list_owner;

// Ids are handed out to threads in blocks.
std::atomic<uint64_t> next_id_block{1};
constexpr uint64_t ids_a_block = 1 << 16;
thread_local constinit uint64_t next_id = 0, last_id = 0;
// For IdMark: the number of marks on this thread, and the blocks of ids taken while there is one.
thread_local constinit int marks = 0;
std::vector<uint64_t>& blocks_since_mark() {
  static thread_local constinit PerThread<std::vector<uint64_t>> blocks;
  return *blocks;
}
// A ring of the blocks that this thread took last.
constexpr size_t remembered_blocks = 64;
thread_local constinit uint32_t recent_blocks[remembered_blocks] = {};
thread_local constinit size_t blocks_taken = 0;
[[gnu::noinline]] void begin_id_block() {  // rare; out of line to keep new_id small
  next_id = next_id_block.fetch_add(1, std::memory_order_relaxed) * ids_a_block;
  last_id = next_id + ids_a_block;
  recent_blocks[blocks_taken++ % remembered_blocks] = uint32_t(next_id / ids_a_block);
  if (marks) blocks_since_mark().push_back(next_id);
}
uint64_t new_id() {
  if (next_id == last_id) [[unlikely]]
    begin_id_block();
  return next_id++;
}
}  // namespace

IdMark::IdMark() : first_(next_id), last_(last_id), later_(blocks_since_mark().size()) { ++marks; }
IdMark::~IdMark() {
  if (--marks == 0) blocks_since_mark().clear();
}
bool IdMark::made_since(uint64_t id) const {
  if (id >= first_ && id < last_) return true;
  const std::vector<uint64_t>& blocks = blocks_since_mark();
  for (size_t i = later_; i < blocks.size(); ++i)
    if (id >= blocks[i] && id < blocks[i] + ids_a_block) return true;
  return false;
}

uint64_t next_id_here() { return next_id; }
bool made_here(uint64_t id) {
  const uint32_t block = uint32_t(id / ids_a_block);
  const size_t known = std::min(blocks_taken, remembered_blocks);
  for (size_t i = 0; i < known; ++i)
    if (recent_blocks[i] == block) return true;
  return blocks_taken > remembered_blocks && block < recent_blocks[blocks_taken % remembered_blocks];
}

void* TensorRep::operator new(size_t bytes) {
  if (FreeRep* r = free_reps) {
    free_reps = r->next;
    --free_rep_count;
    return r;
  }
  return ::operator new(bytes);
}
void TensorRep::operator delete(void* p) {
  if (free_rep_count < max_free_reps && !thread_is_ending) {
    if (!free_reps) rep_list_owner.engaged = true;  // makes the thread's destructor run
    free_reps = new (p) FreeRep{free_reps};
    ++free_rep_count;
  } else {
    ::operator delete(p);
  }
}
void TensorRep::destroy(TensorRep* r) { delete r; }

namespace {
// For a tensor with elements, which has plain sizes.
void close(Shape& shape) {
  for (Dim& d : shape)
    if (d.is_open()) [[unlikely]]
      d = int64_t(d);
}
}  // namespace

Tensor make_tensor(Spec spec, Ref<Buffer> buffer) {
  close(spec.shape);
  auto* rep = new TensorRep;
  rep->id = new_id();
  rep->strides = Strides(spec.shape.size(), 1);
  for (size_t i = spec.shape.size(); i-- > 1;) rep->strides[i - 1] = rep->strides[i] * spec.shape[i].plain();
  rep->spec = std::move(spec);
  rep->data = static_cast<char*>(buffer->data);
  rep->buffer = std::move(buffer);
  return Tensor(Ref<TensorRep>::adopt(rep));
}

Tensor make_view(const Tensor& base, Shape shape, Strides strides, int64_t offset_elements) {
  auto* rep = new TensorRep;
  rep->id = new_id();
  rep->spec = base.spec();
  rep->spec.shape = std::move(shape);
  close(rep->spec.shape);
  rep->strides = std::move(strides);
  rep->data = base.rep()->data + offset_elements * int64_t(size_of(base.dtype()));
  rep->buffer = base.rep()->buffer;
  return Tensor(Ref<TensorRep>::adopt(rep));
}

Tensor make_alias(const Tensor& t) {
  static_cast<void>(t.spec());  // throws if undefined
  const TensorRep& r = *t.rep();
  auto* rep = new TensorRep;
  rep->id = new_id();
  rep->trace = r.trace;
  rep->trace_value = r.trace_value;
  rep->spec = r.spec;
  rep->strides = r.strides;
  rep->data = r.data;
  rep->buffer = r.buffer;
  return Tensor(Ref<TensorRep>::adopt(rep));
}

Tensor make_stand_in(Spec spec) {
  auto* rep = new TensorRep;
  rep->id = new_id();
  rep->strides = Strides(spec.shape.size(), 1);
  for (size_t i = spec.shape.size(); i-- > 1;) rep->strides[i - 1] = rep->strides[i] * spec.shape[i].hint();
  rep->spec = std::move(spec);
  return Tensor(Ref<TensorRep>::adopt(rep));
}

// --- Tensor ----------------------------------------------------------------------------------------------------------

void Tensor::fail_undefined(const Where& where, std::string_view member) {
  // Inside a composite function, the error has the name of that function, which the user called.
  if (const std::string function = called_function(); !function.empty())
    fail(function, "an operand is an undefined tensor. assign a value to it first", where);
  fail(member, "the tensor is undefined. assign a value to it before using it", where);
}

Size Tensor::dim(Axis axis, Where where) const {
  if (!defined()) fail_undefined(where, "dim");
  const int64_t n = ndim(), given = axis, a = given < 0 ? given + n : given;
  if (a < 0 || a >= n)
    fail("dim", fmt::format("axis {} is out of bounds for tensor {} of dimension {}", given, to_string(spec()), n),
         where);
  return shape()[size_t(a)];
}

RowIterator Tensor::begin(Where where) const {
  if (defined() && ndim() == 0)
    fail("begin",
         "a tensor without axes has no rows to go over; its number is x.item<float>(). operands: " + to_string(spec()),
         where);
  return {*this, 0, where};
}
RowIterator Tensor::end(Where where) const { return {*this, dim(0, where), where}; }

void Tensor::look_at_sizes() const {
  for (Dim d : rep_->spec.shape) [[maybe_unused]]
    int64_t seen = d;
}

bool Tensor::is_contiguous(Where where) const {
  const TensorRep& r = checked(where);
  if (r.trace && r.trace != delayed_trace) return true;  // values of a graph count as dense, whatever their sizes
  int64_t expected = 1;
  for (size_t i = r.spec.shape.size(); i-- > 0;) {
    const int64_t n = r.spec.shape[i].plain();
    if (n == 0) return true;
    if (n != 1 && r.strides[i] != expected) return false;
    expected *= n;
  }
  return true;
}

std::string to_string(const Spec& s) { return std::string(name(s.dtype)) + with_open_sizes(s.shape); }

}  // namespace rill
