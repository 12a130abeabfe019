// Operators of the domain ai.onnx.ml, as exported by scikit-learn, LightGBM and XGBoost: scaling, linear models, trees.
// The last one of such a model, ZipMap, makes a map of each row; here the rows stay a tensor, with a column for each
// class. Start at Forest.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// An attribute's numbers: f32, or f64 in a tensor under another name, as in f64 models.
std::vector<double> reals_of(const Call& c, const std::string& name) {
  const std::string wide = name + "_as_tensor";
  return c.has_attribute(wide) ? c.tensor(wide).to_vector<double>() : c.reals(name);
}
void check_count(const Call& c, const std::string& name, size_t given, Dim wanted) {
  if (given != 1 && !wanted.is_open() && int64_t(given) != wanted.plain())
    c.reject(fmt::format("'{}' has {} numbers. expected {}{}", name, given, wanted.plain(),
                         wanted.plain() == 1 ? "" : ", or one for all"));
}
// One number for all, or one for each of `wanted`.
Tensor numbers(const Call& c, const std::string& name, Dim wanted, DType dtype = DType::f32) {
  const std::vector<double> given = reals_of(c, name);
  check_count(c, name, given.size(), wanted);
  return tensor(given).astype(dtype);
}
// [rows, features] in f32; one row may come without its axis.
Tensor rows_of(const Call& c) {
  const Tensor x = c.x().astype(c.x().dtype() == DType::f64 ? f64 : f32);
  if (x.ndim() != 1 && x.ndim() != 2) c.reject("takes [rows, features]");
  return x.ndim() == 1 ? reshape(x, {1, -1}) : x;
}

// --- Classes ---------------------------------------------------------------------------------------------------------

// The class of an index, by its name in the file.
class Labels {
 public:
  Labels(const Call& c, const char* texts, const char* integers) : texts_(c.strings(texts)) {
    for (const Dim n : c.integers(integers)) numbers_.push_back(n.plain());
    if (texts_.empty() && numbers_.empty()) c.reject("names no classes");
  }
  int64_t count() const { return int64_t(std::max(texts_.size(), numbers_.size())); }
  Tensor at(const Tensor& index) const {
    return take(texts_.empty() ? tensor(numbers_) : tensor(texts_), index, Axis(0));
  }

 private:
  std::vector<std::string> texts_;
  std::vector<int64_t> numbers_;
};

std::string transform_of(const Call& c) {
  const std::string kind = c.text("post_transform", "NONE");
  static const std::set<std::string> known = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"};
  if (!known.contains(kind)) c.reject("post_transform " + kind + " is not known");
  return kind;
}
Tensor transformed(const std::string& kind, const Tensor& scores) {
  if (kind == "LOGISTIC") return sigmoid(scores);
  if (kind == "SOFTMAX") return softmax(scores, -1);
  if (kind == "NONE") return scores;
  const Tensor e = where(equal(scores, 0), zeros_like(scores), exp(scores - max(scores, -1, true)));
  return e / sum(e, -1, true);
}
Tensor transformed(const Call& c, const Tensor& scores) { return transformed(transform_of(c), scores); }

Tensor beside(const Tensor& first, const Tensor& second) { return concat({first, second}, 1); }

// For one score and two classes: the second if it is greater than `limit`, else the first.
Tensor one_of_two(const Labels& labels, const Tensor& score, double limit) {
  return labels.at(reshape(greater(score, limit), {-1}).astype(i64));
}

// --- Preparation -----------------------------------------------------------------------------------------------------

Tensor sizes_of_rows(const Call& c, const Tensor& x) {
  const std::string norm = c.text("norm", "MAX");
  if (norm == "MAX") return max(x, -1, true);
  if (norm == "L1") return sum(abs(x), -1, true);
  if (norm == "L2") return sqrt(sum(square(x), -1, true));
  c.reject("norm " + norm + " is not known");
}
Values normalizer_rule(const Call& c) {
  const Tensor x = rows_of(c), size = sizes_of_rows(c, x);
  return {reshape(x / where(equal(size, 0), 1, size), c.x().shape()).astype(f32)};
}
Values scaler_rule(const Call& c) {
  const Tensor x = c.x().astype(f32);
  const Dim n = x.dim(-1);
  return {(x - numbers(c, "offset", n)) * numbers(c, "scale", n)};
}
Values binarizer_rule(const Call& c) { return {greater(c.x(), c.real("threshold", 0)).astype(c.x().dtype())}; }
Values feature_rule(const Call& c) {
  const Tensor y = take(c.x(0), reshape(c.x(1), {-1}), Axis(-1));
  return {c.x(0).ndim() == 1 ? reshape(y, {1, -1}) : y};
}
Values imputer_rule(const Call& c) {
  const Tensor x = c.x();
  if (is_floating(x.dtype())) {
    const double missing = c.real("replaced_value_float", 0);
    const Tensor is_missing = std::isnan(missing) ? isnan(x) : equal(x, missing);
    return {where(is_missing, numbers(c, "imputed_value_floats", x.dim(-1), x.dtype()), x)};
  }
  std::vector<int64_t> instead;
  for (const Dim n : c.integers("imputed_value_int64s")) instead.push_back(n.plain());
  check_count(c, "imputed_value_int64s", instead.size(), x.dim(-1));
  const Tensor is_missing = equal(x.astype(i64), tensor(c.integer("replaced_value_int64", 0)));
  return {where(is_missing, tensor(instead), x.astype(i64)).astype(x.dtype())};
}

// --- Linear models ---------------------------------------------------------------------------------------------------

Tensor linear_scores(const Call& c, const Tensor& x, int64_t targets) {
  const std::vector<double> given = c.reals("coefficients");
  const Dim features = x.dim(-1);
  const auto n = int64_t(given.size());
  if (targets < 1 || n == 0 || n % targets || (!features.is_open() && n / targets != features.plain()))
    c.reject("coefficients are not one for each target and feature");
  const Tensor factors = tensor(given).astype(f32);
  const Tensor y = matmul(x.astype(f32), matrix_transpose(reshape(factors, {targets, -1})));
  return c.has_attribute("intercepts") ? y + numbers(c, "intercepts", targets) : y;
}
Values linear_regressor_rule(const Call& c) {
  return {transformed(c, linear_scores(c, rows_of(c), c.integer("targets", 1)))};
}
Values linear_classifier_rule(const Call& c) {
  const Labels labels(c, "classlabels_strings", "classlabels_ints");
  const int64_t targets = int64_t(std::max<size_t>(c.reals("intercepts").size(), 1));
  const Tensor scores = linear_scores(c, rows_of(c), targets);
  if (targets == 1 && labels.count() == 2)
    return {one_of_two(labels, scores, 0), transformed(c, beside(-scores, scores))};
  if (targets != labels.count()) c.reject("its scores are not one for each class");
  return {labels.at(argmax(scores, -1)), transformed(c, scores)};
}

// --- Trees -----------------------------------------------------------------------------------------------------------

// All trees as one table of nodes, which every row descends at once, one level for each step: a leaf is its own child.
class Forest {
 public:
  // `kind`: "class" or "target", the prefix of the attributes of the leaves' values.
  Forest(const Call& c, const std::string& kind, int64_t columns) : c_(c), columns_(columns) {
    const Dims trees = c.integers("nodes_treeids"), ids = c.integers("nodes_nodeids");
    if (trees.empty() || ids.size() != trees.size()) c.reject("has no nodes, or not an id for each");
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!rows_.emplace(Id{trees[i].plain(), ids[i].plain()}, int64_t(i)).second) c.reject("has two nodes of one id");
      if (i == 0 || trees[i].plain() != trees[i - 1].plain()) roots_.push_back(int64_t(i));
    }
    read_nodes(trees);
    read_leaves(kind);
    find_depth();
  }
  // For TreeEnsemble, in which leaves are numbered separately: they come after the nodes that branch.
  Forest(const Call& c, int64_t columns) : c_(c), columns_(columns) {
    const Dims leaf_columns = c.integers("leaf_targetids");
    const std::vector<double> weights = c.tensor("leaf_weights").to_vector<double>();
    read_branches(leaf_columns.size());
    if (weights.size() != leaf_columns.size()) c.reject("an attribute does not have an entry for each leaf");
    check_table(yes_.size());
    weights_.assign(yes_.size() * size_t(columns_), 0);
    for (size_t i = 0; i < weights.size(); ++i)
      weight(int64_t(yes_.size() - weights.size() + i), leaf_columns[i].plain()) += weights[i];
    for (const Dim root : c.integers("tree_roots")) {
      if (root < 0 || root >= int64_t(yes_.size() - weights.size())) c.reject("a tree begins at no node");
      roots_.push_back(root.plain());
    }
    if (roots_.empty()) c.reject("has no trees");
    find_depth();
  }

  // The values of the leaves, [rows, trees, columns].
  Tensor operator()(const Tensor& x) const {
    if (!x.dim(1).is_open() && x.dim(1).plain() <= last_feature_)
      c_.reject(fmt::format("its nodes read feature {}, of {}", last_feature_, x.dim(1).plain()));
    Tensor at = broadcast_to(tensor(roots_), {x.dim(0), int64_t(roots_.size())});
    for (int64_t level = 0; level < depth_; ++level) {
      const Tensor value = take_along_axis(x, take(tensor(features_), at, Axis(0)), Axis(1));
      const Tensor limit = take(tensor(limits_), at, Axis(0)).astype(x.dtype());
      const Tensor onward = logical_or(goes_on(at, value, limit), logical_and(isnan(value), missing_goes_on(at)));
      at = where(onward, take(tensor(yes_), at, Axis(0)), take(tensor(no_), at, Axis(0)));
    }
    return take(reshape(tensor(weights_).astype(x.dtype()), {-1, columns_}), at, Axis(0));
  }
  bool speaks_of_one_class() const { return voted_.size() == 1; }
  bool is_positive() const {
    return std::ranges::all_of(weights_, [](double w) { return w >= 0; });
  }
  // The column of the only class, if all leaves vote for one.
  int64_t only() const { return *voted_.begin(); }

 private:
  using Id = std::pair<int64_t, int64_t>;  // of a tree, and of a node in it

  int64_t row(int64_t tree, int64_t id) const {
    const auto found = rows_.find({tree, id});
    if (found == rows_.end()) c_.reject(fmt::format("tree {} has no node {}", tree, id));
    return found->second;
  }
  void read_nodes(const Dims& trees) {
    const size_t n = trees.size();
    const Dims features = c_.integers("nodes_featureids"), yes = c_.integers("nodes_truenodeids"),
               no = c_.integers("nodes_falsenodeids"), missing = c_.integers("nodes_missing_value_tracks_true");
    limits_ = reals_of(c_, "nodes_values");
    modes_ = c_.strings("nodes_modes");
    if (features.size() != n || yes.size() != n || no.size() != n || limits_.size() != n || modes_.size() != n ||
        (!missing.empty() && missing.size() != n))
      c_.reject("an attribute does not have an entry for each node");
    for (size_t i = 0; i < n; ++i) {
      const bool leaf = modes_[i] == "LEAF";
      features_.push_back(leaf ? 0 : features[i].plain());
      if (features_.back() < 0) c_.reject(fmt::format("a node reads feature {}", features_.back()));
      last_feature_ = std::max(last_feature_, features_.back());
      yes_.push_back(leaf ? int64_t(i) : row(trees[i].plain(), yes[i].plain()));
      no_.push_back(leaf ? int64_t(i) : row(trees[i].plain(), no[i].plain()));
      missing_.push_back(!leaf && !missing.empty() && missing[i].plain() != 0);
      if (!leaf) kinds_.insert(modes_[i]);
    }
  }
  void read_leaves(const std::string& kind) {
    const Dims trees = c_.integers(kind + "_treeids"), ids = c_.integers(kind + "_nodeids"),
               columns = c_.integers(kind + "_ids");
    const std::vector<double> weights = reals_of(c_, kind + "_weights");
    if (ids.size() != trees.size() || columns.size() != trees.size() || weights.size() != trees.size())
      c_.reject("an attribute does not have an entry for each leaf");
    check_table(rows_.size());
    weights_.assign(rows_.size() * size_t(columns_), 0);
    for (size_t i = 0; i < trees.size(); ++i)
      weight(row(trees[i].plain(), ids[i].plain()), columns[i].plain()) += weights[i];
  }
  // A small file may claim that there are many.
  void check_table(size_t nodes) const {
    constexpr int64_t most_columns = 1 << 16, most_weights = 1 << 30;
    if (columns_ < 1 || columns_ > most_columns || int64_t(nodes) * columns_ > most_weights)
      c_.reject(fmt::format("{} results of {} nodes. a table of these has from 1 to {} results and {} numbers at most",
                            columns_, nodes, most_columns, most_weights));
  }
  double& weight(int64_t node, int64_t column) {
    if (column < 0 || column >= columns_) c_.reject(fmt::format("a leaf speaks of {}, of {}", column, columns_));
    voted_.insert(column);
    return weights_[size_t(node * columns_ + column)];
  }
  void read_branches(size_t leaves) {
    static const char* const modes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",   "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER"};
    const Dims features = c_.integers("nodes_featureids"), yes = c_.integers("nodes_truenodeids"),
               no = c_.integers("nodes_falsenodeids"), yes_is_leaf = c_.integers("nodes_trueleafs"),
               no_is_leaf = c_.integers("nodes_falseleafs"), missing = c_.integers("nodes_missing_value_tracks_true");
    const std::vector<int64_t> numbers = c_.tensor("nodes_modes").to_vector<int64_t>();
    limits_ = c_.tensor("nodes_splits").to_vector<double>();
    const size_t n = features.size();
    for (const size_t count : {yes.size(), no.size(), yes_is_leaf.size(), no_is_leaf.size(), numbers.size(),
                               limits_.size(), missing.empty() ? n : missing.size()})
      if (count != n) c_.reject("an attribute does not have an entry for each node");
    const auto child = [&](Dim id, Dim is_leaf) {
      if (id < 0 || id >= int64_t(is_leaf != 0 ? leaves : n)) c_.reject(fmt::format("there is no node {}", id.plain()));
      return id.plain() + (is_leaf != 0 ? int64_t(n) : 0);
    };
    for (size_t i = 0; i < n; ++i) {
      if (features[i] < 0) c_.reject(fmt::format("a node reads feature {}", features[i].plain()));
      if (numbers[i] < 0 || numbers[i] > 6) c_.reject(fmt::format("an unknown mode of a node, {}", numbers[i]));
      features_.push_back(features[i].plain());
      last_feature_ = std::max(last_feature_, features_.back());
      yes_.push_back(child(yes[i], yes_is_leaf[i])), no_.push_back(child(no[i], no_is_leaf[i]));
      missing_.push_back(!missing.empty() && missing[i] != 0);
      modes_.emplace_back(modes[numbers[i]]);
      kinds_.insert(modes_.back());
    }
    for (size_t i = n; i < n + leaves; ++i) {
      features_.push_back(0), yes_.push_back(int64_t(i)), no_.push_back(int64_t(i)), missing_.push_back(0);
      limits_.push_back(0), modes_.emplace_back("LEAF");
    }
    read_members();
  }
  // The sets of the nodes that test for membership, in order; NaN ends each.
  void read_members() {
    const auto tests_membership = [](const std::string& mode) { return mode == "BRANCH_MEMBER"; };
    if (std::ranges::none_of(modes_, tests_membership)) return;
    std::vector<std::vector<double>> sets(1);
    for (const double v : c_.tensor("membership_values").to_vector<double>()) {
      if (std::isnan(v)) sets.emplace_back();
      else sets.back().push_back(v);
    }
    size_t next = 0;
    for (const auto& set : sets) widest_ = std::max(widest_, int64_t(set.size()));
    for (const std::string& mode : modes_) {
      std::vector<double> row(size_t(widest_), NAN);
      if (tests_membership(mode) && next < sets.size()) std::ranges::copy(sets[next++], row.begin());
      members_.insert(members_.end(), row.begin(), row.end());
    }
  }
  // The depth of the deepest leaf. A cycle is no tree. Each node is visited once.
  void find_depth() {
    constexpr int64_t most = 1000, unvisited = -1, open = -2;
    std::vector<int64_t> below(yes_.size(), unvisited);  // a node, steps
    for (const int64_t root : roots_) {
      std::vector<int64_t> way = {root};
      while (!way.empty()) {
        const auto i = size_t(way.back());
        const int64_t yes = modes_[i] == "LEAF" ? unvisited : yes_[i], no = modes_[i] == "LEAF" ? unvisited : no_[i];
        below[i] = yes == unvisited ? 0 : open;
        int64_t next = unvisited, longest = -1;
        for (const int64_t child : {yes, no}) {
          if (child == unvisited) continue;
          const int64_t steps = below[size_t(child)];
          if (steps == unvisited) next = child;
          if (steps == open || int64_t(way.size()) > most || steps >= most)
            c_.reject(fmt::format("a tree is deeper than {}, or goes in a circle", most));
          longest = std::max(longest, steps);
        }
        if (next != unvisited) {
          way.push_back(next);
          continue;
        }
        below[i] = longest + 1;
        way.pop_back();
      }
      depth_ = std::max(depth_, below[size_t(root)]);
    }
  }
  Tensor compared(const std::string& mode, const Tensor& at, const Tensor& value, const Tensor& limit) const {
    if (mode == "BRANCH_MEMBER") {
      const Tensor sets = reshape(tensor(members_), {-1, widest_}).astype(value.dtype());
      return max(equal(expand_dims(value, -1), take(sets, at, Axis(0))).astype(i32), -1) != 0;
    }
    if (mode == "BRANCH_LEQ") return less_equal(value, limit);
    if (mode == "BRANCH_LT") return less(value, limit);
    if (mode == "BRANCH_GTE") return greater_equal(value, limit);
    if (mode == "BRANCH_GT") return greater(value, limit);
    if (mode == "BRANCH_EQ") return equal(value, limit);
    if (mode == "BRANCH_NEQ") return not_equal(value, limit);
    c_.reject("an unknown mode of a node, '" + mode + "'");
  }
  Tensor goes_on(const Tensor& at, const Tensor& value, const Tensor& limit) const {
    if (kinds_.size() == 1) return compared(*kinds_.begin(), at, value, limit);
    Tensor onward = zeros(at.shape(), boolean);
    for (const std::string& mode : kinds_) {
      std::vector<int32_t> of_mode;
      for (const std::string& m : modes_) of_mode.push_back(m == mode);
      const Tensor has_mode = take(tensor(of_mode), at, Axis(0)) != 0;
      onward = logical_or(onward, logical_and(has_mode, compared(mode, at, value, limit)));
    }
    return onward;
  }
  Tensor missing_goes_on(const Tensor& at) const { return take(tensor(missing_), at, Axis(0)) != 0; }

  const Call& c_;
  const int64_t columns_;
  std::map<Id, int64_t> rows_;
  std::vector<int64_t> roots_, features_, yes_, no_;
  std::vector<double> limits_, weights_, members_;  // members_: for each node, `widest_` numbers
  int64_t widest_ = 0;
  std::vector<int32_t> missing_;
  std::vector<std::string> modes_;
  std::set<std::string> kinds_;
  std::set<int64_t> voted_;  // the columns that leaves vote for
  int64_t depth_ = 0, last_feature_ = 0;
};

Tensor with_base(const Call& c, const Tensor& scores) {
  if (reals_of(c, "base_values").empty()) return scores;
  return scores + numbers(c, "base_values", scores.dim(1), scores.dtype());
}
Values tree_regressor_rule(const Call& c) {
  const Tensor leaves = Forest(c, "target", c.integer("n_targets", 1))(rows_of(c));
  const std::string kind = c.text("aggregate_function", "SUM");
  static const std::set<std::string> known = {"SUM", "AVERAGE", "MIN", "MAX"};
  if (!known.contains(kind)) c.reject("aggregate_function " + kind + " is not known");
  const Tensor scores = kind == "SUM"       ? sum(leaves, 1)
                        : kind == "AVERAGE" ? mean(leaves, 1)
                        : kind == "MIN"     ? min(leaves, 1)
                                            : max(leaves, 1);
  return {transformed(c, with_base(c, scores)).astype(f32)};
}
Values tree_ensemble_rule(const Call& c) {
  static const char* const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};
  const int64_t transform = c.integer("post_transform", 0), kind = c.integer("aggregate_function", 1);
  if (transform < 0 || transform > 3) c.reject(fmt::format("post_transform {} is not known", transform));
  if (kind < 0 || kind > 3) c.reject(fmt::format("aggregate_function {} is not known", kind));
  const Tensor leaves = Forest(c, c.integer("n_targets", 1))(rows_of(c));
  const Tensor scores = kind == 0   ? mean(leaves, 1)
                        : kind == 1 ? sum(leaves, 1)
                        : kind == 2 ? min(leaves, 1)
                                    : max(leaves, 1);
  return {transformed(transforms[transform], scores).astype(c.x().dtype())};
}
// For one score of the second of two classes, which is a probability if no leaf is negative. Of the transforms only
// LOGISTIC is applied, as in onnxruntime.
Tensor two_scores(const Call& c, const Tensor& score, bool is_fraction) {
  if (transform_of(c) == "LOGISTIC") return beside(sigmoid(-score), sigmoid(score));
  return is_fraction ? beside(1 - score, score) : beside(-score, score);
}
Values tree_classifier_rule(const Call& c) {
  const Labels labels(c, "classlabels_strings", "classlabels_int64s");
  const Forest forest(c, "class", labels.count());
  const Tensor scores = sum(forest(rows_of(c)), 1);
  if (labels.count() == 2 && forest.speaks_of_one_class() && reals_of(c, "base_values").size() < 2) {
    const Tensor score = with_base(c, scores(all, slice(forest.only(), forest.only() + 1)));
    return {one_of_two(labels, score, forest.is_positive() ? 0.5 : 0.0),
            two_scores(c, score, forest.is_positive()).astype(f32)};
  }
  const Tensor all_scores = with_base(c, scores);
  return {labels.at(argmax(all_scores, -1)), transformed(c, all_scores).astype(f32)};
}

}  // namespace

const RuleTable& ml_rules() {
  static const RuleTable table = {
      {"ArrayFeatureExtractor", {feature_rule}},
      {"Binarizer", {binarizer_rule}},
      {"Imputer", {imputer_rule}},
      {"LinearClassifier", {linear_classifier_rule}},
      {"LinearRegressor", {linear_regressor_rule}},
      {"Normalizer", {normalizer_rule}},
      {"Scaler", {scaler_rule}},
      {"TreeEnsemble", {tree_ensemble_rule}},
      {"TreeEnsembleClassifier", {tree_classifier_rule}},
      {"TreeEnsembleRegressor", {tree_regressor_rule}},
      {"ZipMap", {[](const Call& c) { return Values{c.x()}; }}},
  };
  return table;
}

}  // namespace rill::onnx_import
