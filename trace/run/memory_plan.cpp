// Decides where each value is stored; see memory_plan.h. Start at Planner::run.
#include "rill/trace/run/memory_plan.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rill/devices/driver.h"
#include "rill/ops/op.h"
#include "rill/trace/graph/layout.h"
#include "rill/trace/run/arena.h"

namespace rill {

namespace {

constexpr size_t alignment = 64;

// The memory of one or several values (views of each other, or results that reuse it).
struct Storage {
  size_t bytes = 0;
  int first = 0, last = 0;  // nodes
  bool is_output = false;   // outlives the call, or is not allocated by the plan
  bool allocated = false;   // computed by an op of this graph
  size_t offset = 0;
  int given = 0;  // how often it is a result, or an operand of an op that may return an alias of it
  int views = 0;  // how many views of it a call makes
  int into = -1;  // the storage that took over its values, or -1
};

// Whether running the op may throw because of its operands' elements.
bool may_throw(const Node& n) { return n.op->may_throw ? n.op->may_throw(n.attrs) : n.op->kind == OpKind::library; }

class Planner {
 public:
  explicit Planner(const Graph& g) : g_(g) {}

  MemoryPlan run() {
    number_values();
    choose_device();
    for (size_t i = 0; i < g_.nodes().size(); ++i) visit(int(i));
    mark_outputs();
    share_in_place();
    assign_offsets();
    write();
    update_variables();
    use_arguments();
    return std::move(plan_);
  }

 private:
  void number_values() {
    size_t n = 0;
    for (const Node& node : g_.nodes()) {
      plan_.first.push_back(n);
      n += node.outputs.size();
    }
    plan_.locations.resize(n);
    storage_of_.resize(n, -1);
  }

  // A graph may run on several devices; the arena is on one.
  void choose_device() {
    std::vector<std::pair<Device, size_t>> bytes;
    for (const Node& n : g_.nodes()) {
      if (n.kind != Node::Kind::op || n.op->call) continue;
      for (const Spec& s : n.outputs) {
        const auto of = [&](const auto& entry) { return entry.first == s.device; };
        auto known = std::find_if(bytes.begin(), bytes.end(), of);
        if (known == bytes.end()) known = bytes.insert(bytes.end(), {s.device, 0});
        known->second += bytes_of(s);
      }
    }
    const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
    if (!bytes.empty()) device_ = std::max_element(bytes.begin(), bytes.end(), less)->first;
  }

  int new_storage(size_t bytes, int node, bool here) {
    storages_.push_back({(bytes + alignment - 1) / alignment * alignment, node, node, !here, here, 0});
    return int(storages_.size()) - 1;
  }

  void visit(int i) {
    const Node& n = g_.nodes()[size_t(i)];
    for (ValueId v : n.inputs) storage_of(v).last = i;
    bool calls = n.kind == Node::Kind::op && n.op->call;
    if (calls)  // its results may be aliases of its operands, which must outlive the node
      for (ValueId v : n.inputs) give(v);
    if (n.kind == Node::Kind::op && may_throw(n)) last_throwing_ = i;
    layouts_.append(n);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const Spec& s = n.outputs[k];
      size_t number = plan_.first[size_t(i)] + k;
      if (n.kind == Node::Kind::op && n.op->view) {
        storage_of_[number] = number_of_storage(plan_.number(n.inputs[0]));
        ++storage_of(n.inputs[0]).views;
        continue;
      }
      bool here = n.kind == Node::Kind::op && !calls && s.dtype != DType::string && s.device == device_;
      storage_of_[number] = new_storage(bytes_of(s), i, here);
    }
  }

  // The storage of a value, by its number. Follows storages that were taken over, and shortens the path.
  int number_of_storage(size_t value) {
    int& s = storage_of_[value];
    while (storages_[size_t(s)].into >= 0) {
      const int into = storages_[size_t(s)].into, next = storages_[size_t(into)].into;
      if (next >= 0) storages_[size_t(s)].into = next;
      s = into;
    }
    return s;
  }
  Storage& storage_of(ValueId v) { return storages_[size_t(number_of_storage(plan_.number(v)))]; }

  void give(ValueId v) {
    storage_of(v).is_output = true;
    ++storage_of(v).given;
  }

  void mark_outputs() {
    for (ValueId v : g_.outputs) give(v);
    for (const GraphAssign& a : g_.assigns) give(a.value);
  }

  // Whether output `k` of node i may overwrite its operand v, which nothing reads afterwards.
  bool may_overwrite(int i, size_t k, ValueId v) {
    const Node& n = g_.nodes()[size_t(i)];
    const Storage& s = storage_of(v);
    if (s.last != i || !writes_point_by_point(n, k, v)) return false;
    for (ValueId other : n.inputs)
      if (!(other == v) && &storage_of(other) == &s) return false;
    return true;
  }

  // Whether the node reads each element of v just before it writes that element of output `k`.
  bool writes_point_by_point(const Node& n, size_t k, ValueId v) const {
    const Spec &in = g_.spec(v), &out = n.outputs[k];
    if (!(in.shape == out.shape) || size_of(in.dtype) != size_of(out.dtype)) return false;
    if (!n.op->may_overwrite) return n.op->kind == OpKind::elementwise && !n.op->view && n.outputs.size() == 1;
    const auto operand = std::find(n.inputs.begin(), n.inputs.end(), v);
    return std::count(operand, n.inputs.end(), v) == 1 &&
           n.op->may_overwrite(n.attrs, size_t(operand - n.inputs.begin()), in);
  }

  // Whether v is dense and begins where its storage does, as a value that overwrites it will. A slice may not.
  bool begins_storage(ValueId v) const {
    const Tensor& layout = layouts_.of(v);
    return layout.defined() && layout.is_contiguous() && layout.rep()->data == layouts_.of(base_of(v)).rep()->data;
  }

  // The value that v is a view of, through any number of views.
  ValueId base_of(ValueId v) const {
    for (const Node* n = &g_.nodes()[size_t(v.node)]; n->kind == Node::Kind::op && n->op->view;
         n = &g_.nodes()[size_t(v.node)])
      v = n->inputs[0];
    return v;
  }

  void share_in_place() {
    for (int i = 0; i < int(g_.nodes().size()); ++i) {
      const Node& n = g_.nodes()[size_t(i)];
      if (n.kind != Node::Kind::op || n.op->call) continue;
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        const int mine = storage_of_[plan_.first[size_t(i)] + k];
        const Storage& own = storages_[size_t(mine)];
        if (own.is_output || own.first != i || own.last == i) continue;
        for (ValueId v : n.inputs)
          if (!storage_of(v).is_output && begins_storage(v) && may_overwrite(i, k, v)) {
            take_over(mine, number_of_storage(plan_.number(v)));
            break;
          }
      }
    }
  }

  // Merges storage `mine` into `taken`.
  void take_over(int mine, int taken) {
    storages_[size_t(taken)].last = storages_[size_t(mine)].last;
    storages_[size_t(mine)].into = taken;
    storages_[size_t(mine)].allocated = false;
    ++plan_.in_place;
  }

  // A variable's new value may overwrite the old one: in the node that reads it last, if no result is an alias of it,
  // and if nothing that could still throw runs later, which would leave the variable changed.
  void update_variables() {
    std::unordered_map<const VariableState*, ValueId> values;
    for (const GraphInput& in : g_.inputs)
      if (in.variable) values[in.variable.get()] = {in.node, 0};
    for (const GraphAssign& a : g_.assigns) {
      ValueLocation& p = plan_.locations[plan_.number(a.value)];
      const auto old = values.find(a.variable.get());
      if (p.kind != ValueLocation::Kind::output || old == values.end()) continue;
      if (storage_of(old->second).given == 0 && a.value.node >= last_throwing_ && reads(a.value.node, old->second) &&
          may_overwrite(a.value.node, size_t(a.value.index), old->second))
        p.over = int32_t(plan_.number(old->second));
    }
  }

  // An argument's memory may be reused by an output of as many bytes once nothing reads the argument any more: from the
  // node that reads it last if that works point by point, else from the next one. The node's own operands are
  // preferred.
  void use_arguments() {
    const size_t nodes = g_.nodes().size();
    std::vector<std::vector<ValueId>> read_last(nodes);  // by node: the arguments that nothing after it reads
    std::vector<char> is_free(nodes, 0);                 // by an argument's node
    for (const GraphInput& in : g_.inputs) {
      const ValueId v{in.node, 0};
      const Spec& s = g_.spec(v);
      if (in.kind != GraphInput::Kind::argument || s.dtype == DType::string || !(s.device == device_) ||
          storage_of(v).given != 0 || storage_of(v).views != 0)
        continue;
      is_free[size_t(v.node)] = 1;
      read_last[size_t(storage_of(v).last)].push_back(v);
    }
    std::unordered_map<size_t, std::vector<ValueId>> free;  // by bytes: those that nothing reads any more
    const auto reusable_argument = [&](int i, size_t k) {
      const std::vector<ValueId>& in = g_.nodes()[size_t(i)].inputs;
      const size_t bytes = bytes_of(g_.nodes()[size_t(i)].outputs[k]);
      const auto own = std::ranges::find_if(in, [&](ValueId v) {
        return v.index == 0 && is_free[size_t(v.node)] && bytes_of(g_.spec(v)) == bytes && may_overwrite(i, k, v);
      });
      if (own != in.end()) return *own;
      std::vector<ValueId>& those = free[bytes];
      while (!those.empty() && !is_free[size_t(those.back().node)]) those.pop_back();
      return those.empty() ? ValueId() : those.back();
    };
    for (int i = 0; i < int(nodes); ++i) {
      const Node& n = g_.nodes()[size_t(i)];
      const bool computes = n.kind == Node::Kind::op && !n.op->call && !n.op->view;
      for (size_t k = 0; computes && k < n.outputs.size(); ++k) {
        ValueLocation& p = plan_.locations[plan_.first[size_t(i)] + k];
        if (p.kind != ValueLocation::Kind::output || p.over >= 0 || n.outputs[k].dtype == DType::string ||
            !(n.outputs[k].device == device_))
          continue;
        const ValueId v = reusable_argument(i, k);
        if (v.node < 0) continue;
        p.over = int32_t(plan_.number(v));
        is_free[size_t(v.node)] = 0;
      }
      for (const ValueId v : read_last[size_t(i)]) free[bytes_of(g_.spec(v))].push_back(v);
    }
  }

  bool reads(int i, ValueId v) const {
    const std::vector<ValueId>& in = g_.nodes()[size_t(i)].inputs;
    return std::find(in.begin(), in.end(), v) != in.end();
  }

  // The largest first.
  void assign_offsets() {
    std::vector<Storage*> order;
    for (Storage& s : storages_)
      if (s.allocated && !s.is_output) order.push_back(&s), plan_.unshared_bytes += s.bytes;
    std::stable_sort(order.begin(), order.end(), [](Storage* a, Storage* b) { return a->bytes > b->bytes; });
    Arena arena(int(g_.nodes().size()));
    for (Storage* s : order) s->offset = arena.put(s->bytes, s->first, kept_until(*s));
    plan_.arena_bytes = arena.bytes();
  }
  // Kernels of independent branches run concurrently on a GPU, unless one reuses memory that another has just freed. So
  // small values, whose kernels alone leave a GPU idle, keep theirs for some nodes longer.
  int kept_until(const Storage& s) const {
    constexpr size_t small_bytes = 1 << 20;
    constexpr int more_nodes = 16;
    if (is_host(device_) || s.bytes > small_bytes) return s.last;
    return std::min(s.last + more_nodes, int(g_.nodes().size()) - 1);
  }

  void write() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        ValueLocation& p = plan_.locations[plan_.first[i] + k];
        const Storage& s = storages_[size_t(number_of_storage(plan_.first[i] + k))];
        p.offset = s.offset;
        if (n.kind == Node::Kind::input) p.kind = ValueLocation::Kind::input;
        else if (n.kind == Node::Kind::constant) p.kind = ValueLocation::Kind::constant;
        else if (n.op->view) set_view(n, p);
        else p.kind = s.is_output ? ValueLocation::Kind::output : ValueLocation::Kind::arena;
      }
    }
  }

  // A view of a value with a fixed address can be made once, with the executable's frame.
  void set_view(const Node& n, ValueLocation& p) {
    const ValueLocation& base = plan_.locations[plan_.number(n.inputs[0])];
    p.kind = ValueLocation::Kind::view;
    p.fixed_view = base.kind == ValueLocation::Kind::arena || base.kind == ValueLocation::Kind::constant ||
                   (base.kind == ValueLocation::Kind::view && base.fixed_view);
  }

  const Graph& g_;
  MemoryPlan plan_;
  Layouts layouts_;
  std::vector<int> storage_of_;  // by value number; see number_of_storage()
  std::vector<Storage> storages_;
  Device device_;           // of the arena: where most bytes are computed
  int last_throwing_ = -1;  // the last node that may throw
};

}  // namespace

MemoryPlan plan_memory(const Graph& g) { return Planner(g).run(); }

}  // namespace rill
