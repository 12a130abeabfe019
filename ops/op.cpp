// The registry of ops: a linked list through the records, so that a record registers itself without a central table.
// Records of librill_ops are no part of a program that calls none of its ops, until a name asks for one.
#include "rill/ops/op.h"

#include "rill/ops/stored_ops.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <utility>

#include "rill/devices/modules.h"
#include "rill/tensor/fork_mutex.h"

namespace rill {

namespace {
constinit std::atomic<const Op*> first_op = nullptr;
constinit std::atomic<const Op*> first_unlisted = nullptr;

// The records of librill_ops register themselves as it is loaded: with a program that links it, else here. Gives why it
// cannot be, or "". One of another release finds no rill_release_... here, and so cannot be loaded.
std::string load_ops() {
#ifdef RILL_OPS_LINKED
  return "";
#else
  const ForkDelay no_fork;  // a child must not find it half loaded
  const char* file = "librill_ops.so." RILL_SOVERSION;
  if (dlopen(file, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE)) return "";
  const std::string path = module_path(file);
  if (path.empty()) return fmt::format("{} is not beside librill", file);
  return open_module(path, nullptr, RILL_VERSION).why;
#endif
}

// Whether librill_ops is open, and why it was not when that was last tried, or "": set together, so that a thread which
// failed cannot leave its reason behind another's success.
struct OpenOps {
  std::atomic<bool> open = false;
  ForkMutex mutex;
  std::string why;
};
OpenOps& opened() {
  static auto& state = *new OpenOps;  // never destroyed: ops may run while a program ends
  return state;
}

// What stood in the way may be gone by the next call. Not for the initialiser of a static: the loader has a lock of its
// own, which another thread may hold that waits for that; nor under the mutex, for the same reason.
void open_ops() {
  OpenOps& state = opened();
  if (state.open) return;
  std::string why = load_ops();
  const std::lock_guard hold(state.mutex);
  if (why.empty()) state.open = true;
  state.why = state.open ? "" : std::move(why);
}

// The registered ops by name. A library that is loaded brings more, so that there is a new list then; who holds an old one
// keeps it.
struct OpList {
  const Op* newest;
  std::vector<const Op*> ops;
  const OpList* before;
};
std::atomic<const OpList*> last_list = nullptr;

const std::vector<const Op*>& registered_ops() {
  const Op* newest = first_op;
  const OpList* before = last_list;
  if (before && before->newest == newest) return before->ops;
  auto* list = new OpList{newest, {}, before};
  for (const Op* op = newest; op; op = op->next) list->ops.push_back(op);
  std::sort(list->ops.begin(), list->ops.end(), [](const Op* a, const Op* b) { return a->name < b->name; });
  while (!last_list.compare_exchange_weak(list->before, list)) {
  }
  return list->ops;
}

const Op* find_registered(std::string_view name) {
  const auto& ops = registered_ops();
  auto it =
      std::lower_bound(ops.begin(), ops.end(), name, [](const Op* op, std::string_view n) { return op->name < n; });
  return it != ops.end() && (*it)->name == name ? *it : nullptr;
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
  open_ops();
  return registered_ops();
}

const Op* find_op(std::string_view name) {
  if (const Op* op = find_registered(name)) return op;
  open_ops();
  return find_registered(name);
}

const Op* find_stored_op(std::string_view name) {
  const Op* op = find_registered(name);
  if (!op) op = find_unlisted(name);
  if (!op) op = find_op(name);
  return op ? op : find_unlisted(name);
}

std::string missing_ops() {
  const std::lock_guard hold(opened().mutex);
  const std::string& why = opened().why;
  return why.empty() ? "" : ". librill_ops, which has many ops, is not loaded: " + why;
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
