#include "rill/trace/memory_plan.h"

#include <algorithm>

#include "rill/trace/layout.h"

namespace rill {

namespace {

constexpr size_t alignment = 64;

// Memory that one or several values (views of each other, results that took it over) live in.
struct Storage {
  size_t bytes = 0;
  int first = 0, last = 0;   // nodes
  bool leaves = false;       // outlives the call, or is not the plan's to place
  bool placed_here = false;  // made by an op of this graph
  size_t offset = 0;
};

class Planner {
 public:
  explicit Planner(const Graph& g) : g_(g) {}

  MemoryPlan run() {
    number_values();
    for (size_t i = 0; i < g_.nodes().size(); ++i) visit(int(i));
    find_leaving();
    share_in_place();
    place();
    return write();
  }

 private:
  void number_values() {
    size_t n = 0;
    for (const Node& node : g_.nodes()) {
      plan_.first.push_back(n);
      n += node.outputs.size();
    }
    plan_.places.resize(n);
    storage_of_.resize(n, -1);
  }

  int new_storage(size_t bytes, int node, bool here) {
    storages_.push_back({(bytes + alignment - 1) / alignment * alignment, node, node, !here, here, 0});
    return int(storages_.size()) - 1;
  }

  void visit(int i) {
    const Node& n = g_.nodes()[size_t(i)];
    for (ValueId v : n.inputs) storages_[size_t(storage_of(v))].last = i;
    bool calls = n.kind == Node::Kind::op && n.op->call;
    if (calls)  // its results may be aliases of what it takes, so that must outlive the node
      for (ValueId v : n.inputs) storages_[size_t(storage_of(v))].leaves = true;
    layouts_.append(n);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const Spec& s = n.outputs[k];
      size_t number = plan_.first[size_t(i)] + k;
      if (n.kind == Node::Kind::op && n.op->view) {
        storage_of_[number] = storage_of(n.inputs[0]);
        continue;
      }
      bool here = n.kind == Node::Kind::op && !calls && s.dtype != DType::string &&
                  s.device == g_.nodes()[first_op()].outputs[0].device;
      storage_of_[number] = new_storage(size_t(s.shape.numel()) * size_of(s.dtype), i, here);
    }
  }

  size_t first_op() const {
    for (size_t i = 0; i < g_.nodes().size(); ++i)
      if (g_.nodes()[i].kind == Node::Kind::op && !g_.nodes()[i].op->call) return i;
    return 0;
  }

  int storage_of(ValueId v) const { return storage_of_[plan_.number(v)]; }

  void find_leaving() {
    for (ValueId v : g_.outputs) storages_[size_t(storage_of(v))].leaves = true;
    for (const GraphAssign& a : g_.assigns) storages_[size_t(storage_of(a.value))].leaves = true;
  }

  // Whether the result of node i may be written over its operand v.
  bool may_overwrite(int i, ValueId v) const {
    const Node& n = g_.nodes()[size_t(i)];
    const Storage& s = storages_[size_t(storage_of(v))];
    const Spec &in = g_.spec(v), &out = n.outputs[0];
    if (s.leaves || s.last != i || !(in.shape == out.shape) || size_of(in.dtype) != size_of(out.dtype)) return false;
    const Tensor& layout = layouts_.of(v);
    if (!layout.defined() || !layout.is_contiguous()) return false;
    for (ValueId other : n.inputs)
      if (!(other == v) && storage_of(other) == storage_of(v)) return false;
    return true;
  }

  void share_in_place() {
    for (int i = 0; i < int(g_.nodes().size()); ++i) {
      const Node& n = g_.nodes()[size_t(i)];
      if (n.kind != Node::Kind::op || n.op->kind != OpKind::elementwise || n.op->view || n.outputs.size() != 1)
        continue;
      int mine = storage_of_[plan_.first[size_t(i)]];
      if (storages_[size_t(mine)].leaves) continue;
      for (ValueId v : n.inputs) {
        if (!may_overwrite(i, v)) continue;
        int taken = storage_of(v);
        storages_[size_t(taken)].last = storages_[size_t(mine)].last;
        for (int& s : storage_of_)
          if (s == mine) s = taken;
        storages_[size_t(mine)].placed_here = false;
        ++plan_.in_place;
        break;
      }
    }
  }

  // The largest first, each at the lowest offset that no storage alive at the same time takes (greedy by size;
  // Pisarchyk and Lee, Efficient memory management for deep neural net inference, 2020).
  void place() {
    std::vector<Storage*> order;
    for (Storage& s : storages_)
      if (s.placed_here && !s.leaves) order.push_back(&s), plan_.unshared_bytes += s.bytes;
    std::stable_sort(order.begin(), order.end(), [](Storage* a, Storage* b) { return a->bytes > b->bytes; });
    std::vector<Storage*> placed;  // by offset
    for (Storage* s : order) {
      size_t at = 0;
      for (Storage* p : placed) {
        if (p->last < s->first || s->last < p->first) continue;
        if (at + s->bytes <= p->offset) break;
        at = std::max(at, p->offset + p->bytes);
      }
      s->offset = at;
      plan_.arena_bytes = std::max(plan_.arena_bytes, at + s->bytes);
      placed.insert(std::upper_bound(placed.begin(), placed.end(), s,
                                     [](Storage* a, Storage* b) { return a->offset < b->offset; }),
                    s);
    }
  }

  MemoryPlan write() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      for (size_t k = 0; k < n.outputs.size(); ++k) {
        ValuePlace& p = plan_.places[plan_.first[i] + k];
        const Storage& s = storages_[size_t(storage_of_[plan_.first[i] + k])];
        p.offset = s.offset;
        if (n.kind == Node::Kind::input) p.kind = ValuePlace::Kind::input;
        else if (n.kind == Node::Kind::constant) p.kind = ValuePlace::Kind::constant;
        else if (n.op->view) set_view(n, p);
        else p.kind = s.leaves ? ValuePlace::Kind::output : ValuePlace::Kind::arena;
      }
    }
    return std::move(plan_);
  }

  // A view of a value that stays where it is can be made once, with the executable's frame.
  void set_view(const Node& n, ValuePlace& p) {
    const ValuePlace& base = plan_.places[plan_.number(n.inputs[0])];
    p.kind = ValuePlace::Kind::view;
    p.fixed_view = base.kind == ValuePlace::Kind::arena || base.kind == ValuePlace::Kind::constant ||
                   (base.kind == ValuePlace::Kind::view && base.fixed_view);
  }

  const Graph& g_;
  MemoryPlan plan_;
  Layouts layouts_;
  std::vector<int> storage_of_;  // by value number
  std::vector<Storage> storages_;
};

}  // namespace

MemoryPlan plan_memory(const Graph& g) { return Planner(g).run(); }

}  // namespace rill
