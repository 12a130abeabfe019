// History as text, files and curves. JSON is by nlohmann_json.
#include "rill/train/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <ostream>
#include <set>

#include "rill/train/json_numbers.h"
#include "rill/train/texts.h"

namespace rill::train {

namespace {

const Logs& row_or_fail(const std::vector<Logs>& rows, int64_t i, const Where& where) {
  if (rows.empty()) fail("History", "no epoch was trained", where);
  const auto n = int64_t(rows.size());
  if (i < -n || i >= n)
    fail("History", fmt::format("has {} epochs, counted from 0, or from -1 back. there is no epoch {}", n, i), where);
  return rows[size_t(i < 0 ? i + n : i)];
}

// "loss" comes first, then the others, each before its validation; "seconds" and "epoch" last.
int rank_of(const std::string& name) {
  const std::string plain = name.starts_with("val_") ? name.substr(4) : name;
  return plain == "loss" ? 0 : plain == "seconds" ? 2 : 1;
}

void write_file(const std::string& path, const std::string& text, const Where& where) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fail("History", fmt::format("{} cannot be written", path), where);
}

std::string short_number(double x) { return std::isnan(x) ? "" : fmt::format("{:.4g}", x); }

// The curves of one picture: "loss" with "val_loss".
std::vector<std::vector<std::string>> groups(const History& h) {
  std::vector<std::vector<std::string>> result;
  const auto names = h.names();
  for (const std::string& name : names) {
    if (name == "seconds" || name.starts_with("val_")) continue;
    result.push_back({name});
    if (std::find(names.begin(), names.end(), "val_" + name) != names.end()) result.back().push_back("val_" + name);
  }
  return result;
}

// The smallest and largest finite number of some curves, made to differ.
std::pair<double, double> range_of(const std::vector<std::vector<double>>& curves) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const auto& curve : curves)
    for (double y : curve)
      if (std::isfinite(y)) low = std::min(low, y), high = std::max(high, y);
  if (low > high) return {0, 1};
  if (low == high) return {low - 0.5, high + 0.5};
  return {low, high};
}

// A curve in one line, eight heights to a character.
std::string spark(const std::vector<double>& curve) {
  static const char* const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const auto [low, high] = range_of({curve});
  std::string line;
  const size_t width = std::min<size_t>(curve.size(), 60);
  for (size_t i = 0; i < width; ++i) {
    const double y = curve[i * curve.size() / width];
    line += std::isfinite(y) ? bars[size_t(std::clamp((y - low) / (high - low) * 7.999, 0., 7.))] : " ";
  }
  return line;
}

std::string svg_of(const History& h) {
  constexpr double width = 480, height = 240, left = 70, right = 20, top = 30, bottom = 40;
  const auto all = groups(h);
  std::string body;
  double offset = 0;
  for (const auto& group : all) {
    std::vector<std::vector<double>> curves;
    for (const std::string& name : group) curves.push_back(h.at(name));
    const auto [low, high] = range_of(curves);
    const size_t n = h.size();
    const auto x = [&](size_t i) { return left + (n > 1 ? double(i) / double(n - 1) : 0.5) * (width - left - right); };
    const auto y = [&, low = low, high = high](double v) {
      return offset + height - bottom - (v - low) / (high - low) * (height - top - bottom);
    };
    body +=
        fmt::format("<text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>\n", left, offset + 18, xml_text(group[0]));
    for (int k = 0; k <= 4; ++k) {
      const double v = low + (high - low) * k / 4;
      body += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
          left, width - right, y(v), left - 6, y(v) + 4, v);
    }
    for (size_t c = 0; c < curves.size(); ++c) {
      const char* colour = c == 0 ? "#1f77b4" : "#ff7f0e";
      std::string points;
      for (size_t i = 0; i < curves[c].size(); ++i)
        if (std::isfinite(curves[c][i])) points += fmt::format("{:.1f},{:.1f} ", x(i), y(curves[c][i]));
      body += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"{}\"/>\n", colour, points);
      body += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", left + 120 + 140 * double(c), offset + 18,
                          colour, xml_text(group[c]));
    }
    body += fmt::format("<text x=\"{}\" y=\"{}\">epoch 1 to {}</text>\n", left, offset + height - 14, n);
    offset += height;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n{2}</svg>\n",
      width, std::max(offset, 1.), body);
}

}  // namespace

const Logs& History::front(Where where) const { return row_or_fail(rows_, 0, where); }
const Logs& History::operator[](rill::detail::BracketIndex epoch) const {
  return row_or_fail(rows_, epoch.index, epoch.where);
}
const Logs& History::back(Where where) const { return row_or_fail(rows_, -1, where); }

std::vector<std::string> History::names() const {
  std::set<std::string> seen;
  for (const Logs& row : rows_)
    for (const auto& [name, value] : row) seen.insert(name);
  std::vector<std::string> result(seen.begin(), seen.end());
  const auto key = [](const std::string& name) {
    const bool validation = name.starts_with("val_");
    return std::tuple(rank_of(name), validation ? name.substr(4) : name, validation);
  };
  std::sort(result.begin(), result.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return result;
}

std::vector<double> History::at(const std::string& name, Where where) const {
  std::vector<double> result;
  bool any = false;
  for (const Logs& row : rows_) {
    const auto at = row.find(name);
    any |= at != row.end();
    result.push_back(at == row.end() ? std::numeric_limits<double>::quiet_NaN() : at->second);
  }
  if (!any) {
    row_or_fail(rows_, 0, where);
    std::string all;
    for (const std::string& n : names()) all += (all.empty() ? "" : ", ") + n;
    fail("History", fmt::format("there is no '{}'. there are: {}", name, all), where);
  }
  return result;
}

void History::plot(const std::string& path, Where where) const {
  write_file(path, path.ends_with(".txt") ? to_string(*this) : svg_of(*this), where);
}
void History::write_csv(const std::string& path, Where where) const { write_file(path, csv(), where); }
void History::write_json(const std::string& path, Where where) const { write_file(path, json(), where); }

std::string History::csv() const {
  const auto all = names();
  std::string text = "epoch";
  for (const std::string& name : all) text += "," + csv_field(name);
  text += "\n";
  for (size_t i = 0; i < rows_.size(); ++i) {
    text += std::to_string(i + 1);
    for (const std::string& name : all) {
      const auto at = rows_[i].find(name);
      text += at == rows_[i].end() ? "," : fmt::format(",{}", at->second);
    }
    text += "\n";
  }
  return text;
}

std::string History::json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Logs& row : rows_) {
    nlohmann::json one = nlohmann::json::object();
    for (const auto& [name, value] : row) one[name] = as_json(value);
    rows.push_back(one);
  }
  return rows.dump();
}

History History::from_json(const std::string& text, Where where) {
  History history;
  try {
    for (const auto& row : nlohmann::json::parse(text)) {
      Logs logs;
      for (const auto& [name, value] : row.items()) logs[name] = number_of(value);
      history.add(std::move(logs));
    }
  } catch (const nlohmann::json::exception& e) {
    fail("History", fmt::format("the text is no history: {}", e.what()), where);
  }
  return history;
}

std::string to_string(const RunTimes& t) {
  const double total = t.total();
  std::string text = fmt::format("{:.3g} s:", total);
  for (const auto& [name, seconds] :
       {std::pair("data", t.data), std::pair("steps", t.step), std::pair("callbacks", t.callbacks),
        std::pair("validation", t.validation), std::pair("saving", t.saving)})
    if (seconds >= 0.005 * total)
      text += fmt::format("{} {} {:.0f} %", text.back() == ':' ? "" : ",", name, 100 * seconds / total);
  const auto large = [&](double seconds, double share) { return seconds > share * total; };
  if (large(t.data, 0.3))
    text += t.prefetches ? ". the data come too slowly: give map() {.threads = 4}, or cache() what does not change; "
                           "iterator({.stats = true}).stats() says which stage is slow"
                         : ". steps wait for data: let a thread prepare them, dataset.prefetch(), and several, map(f, "
                           "{.threads = 4})";
  if (large(t.callbacks, 0.3))
    text += ". callbacks take long: call them less often, write checkpoints {.asynchronous = true}";
  if (large(t.validation, 0.5)) text += ". validation takes long: .validation_every = 5, or .validation_steps = 100";
  if (large(t.saving, 0.3)) text += ". saving takes long: a larger .save_every_steps";
  return text;
}

std::string to_string(const History& h) {
  const auto all = h.names();
  std::vector<std::vector<std::string>> table{{"epoch"}};
  for (const std::string& name : all) table[0].push_back(name);
  for (size_t i = 0; i < h.size(); ++i) {
    table.push_back({std::to_string(i + 1)});
    for (const std::string& name : all) {
      const auto at = h[i].find(name);
      table.back().push_back(at == h[i].end() ? "" : short_number(at->second));
    }
  }
  std::vector<size_t> width(table[0].size(), 0);
  for (const auto& row : table)
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::string text;
  for (const auto& row : table) {
    for (size_t i = 0; i < row.size(); ++i) text += fmt::format("{}{:>{}}", i ? "  " : "", row[i], width[i]);
    text += "\n";
  }
  for (const std::string& name : all)
    if (name != "seconds" && h.size() > 1) text += fmt::format("{:<{}}  {}\n", name, 16, spark(h.at(name)));
  if (!h.stopped().empty()) text += "stopped: " + h.stopped() + "\n";
  if (h.times().total() > 0) text += "time: " + to_string(h.times()) + "\n";
  return text;
}

std::ostream& operator<<(std::ostream& out, const History& history) { return out << to_string(history); }

}  // namespace rill::train
