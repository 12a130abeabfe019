// The registry of ops: a linked list through the records, so that a record registers itself without a central table.
// Records of librill_ops are no part of a program that calls none of its ops, until a name asks for one.
#include "rill/ops/op.h"

#include "rill/ops/stored_ops.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "rill/devices/modules.h"
#include "rill/tensor/fork_mutex.h"

namespace rill {

namespace {
constinit std::atomic<const Op*> first_op = nullptr;
constinit std::atomic<const Op*> first_unlisted = nullptr;

// The records of librill_ops register themselves as it is loaded: with a program that links it, else here. Gives why it
// cannot be, or "".
std::string load_ops() {
#ifdef RILL_OPS_LINKED
  return "";
#else
  const char* file = "librill_ops.so." RILL_SOVERSION;
  if (dlopen(file, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) return "";
  const std::string path = module_path(file);
  if (path.empty()) return fmt::format("{} is not beside librill", file);
  return open_module(path, "rill_ops_version", RILL_VERSION).why;
#endif
}

std::atomic<const std::string*> why_not_opened = nullptr;

// Not by the initialiser of a static: the loader has a lock of its own, which another thread may hold that waits for that.
void open_ops() {
  if (why_not_opened) return;
  const std::string *first = nullptr, *why = new std::string(load_ops());
  if (!why_not_opened.compare_exchange_strong(first, why)) delete why;
}

std::vector<const Op*> sorted_ops() {
  std::vector<const Op*> v;
  for (const Op* op = first_op; op; op = op->next) v.push_back(op);
  std::sort(v.begin(), v.end(), [](const Op* a, const Op* b) { return a->name < b->name; });
  return v;
}

const Op* find_among(const std::vector<const Op*>& ops, std::string_view name) {
  auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const Op* op, std::string_view n) { return op->name < n; });
  return it != ops.end() && (*it)->name == name ? *it : nullptr;
}

// Among those that are registered without librill_ops being opened.
const Op* find_loaded(std::string_view name) {
  const ForkDelay no_fork;
  static const std::vector<const Op*> loaded = sorted_ops();
  return find_among(loaded, name);
}

const Op* find_unlisted(std::string_view name) {
  for (const Op* op = first_unlisted; op; op = op->next)
    if (op->name == name && (op->marker || ReadableAttrs::find(name))) return op;
  return nullptr;
}
}  // namespace

Op::Op(const OpSpec& spec) : OpSpec(spec) {
  std::atomic<const Op*>& first = listed ? first_op : first_unlisted;
  next = first;
  while (!first.compare_exchange_weak(next, this)) {  // another thread may be loading another library
  }
}

const std::vector<const Op*>& all_ops() {
  const ForkDelay no_fork;  // a child must not find librill_ops half loaded
  open_ops();
  static const std::vector<const Op*> ops = sorted_ops();
  return ops;
}

const Op* find_op(std::string_view name) {
  const Op* op = find_loaded(name);
  return op ? op : find_among(all_ops(), name);
}

const Op* find_stored_op(std::string_view name) {
  const Op* op = find_loaded(name);
  if (!op) op = find_unlisted(name);
  if (!op) op = find_among(all_ops(), name);
  return op ? op : find_unlisted(name);
}

std::string missing_ops() {
  const std::string* why = why_not_opened;
  return why && !why->empty() ? ". librill_ops, which has many ops, cannot be opened: " + *why : "";
}

std::string_view name(OpKind k) {
  constexpr std::string_view names[] = {"elementwise", "view", "reduction", "library", "creation"};
  return names[int(k)];
}

void InferArgs::reject(std::string message) const {
  std::string operands;
  for (const Spec* s : in) operands += (operands.empty() ? "" : ", ") + to_string(*s);
  std::string attributes = to_string(attrs);
  fail(op.name,
       fmt::format("{}. operands: {}{}{}", message, operands.empty() ? "none" : operands,
                   attributes.empty() ? "" : "; ", attributes),
       where);
}

void InferArgs::check_axis(int64_t axis, int64_t ndim) const {
  if (axis < 0 || axis >= ndim) reject(fmt::format("axis {} is out of bounds for array of dimension {}", axis, ndim));
}

}  // namespace rill
