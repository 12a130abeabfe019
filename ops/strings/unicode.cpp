// Letters of UTF-8 text, by utf8proc, which has Unicode's tables.
#include <fmt/format.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {
namespace {

struct FreeText {
  void operator()(utf8proc_uint8_t* p) const { std::free(p); }
};

std::string rewritten(std::string_view s, int options, utf8proc_custom_func each, bool& sound) {
  utf8proc_uint8_t* made = nullptr;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(s.data());
  const utf8proc_ssize_t n =
      utf8proc_map_custom(bytes, utf8proc_ssize_t(s.size()), &made, utf8proc_option_t(options), each, nullptr);
  const std::unique_ptr<utf8proc_uint8_t, FreeText> held(made);
  sound = n >= 0;
  return n < 0 ? std::string() : std::string(reinterpret_cast<const char*>(made), size_t(n));
}

utf8proc_int32_t lower_letter(utf8proc_int32_t c, void*) { return utf8proc_tolower(c); }
utf8proc_int32_t upper_letter(utf8proc_int32_t c, void*) { return utf8proc_toupper(c); }

struct Way {
  int options;
  utf8proc_custom_func each = nullptr;
};
Way way_of(Letters how) {
  constexpr int stable = UTF8PROC_STABLE;
  switch (how) {
    case Letters::nfc: return {stable | UTF8PROC_COMPOSE};
    case Letters::nfd: return {stable | UTF8PROC_DECOMPOSE};
    case Letters::nfkc: return {stable | UTF8PROC_COMPOSE | UTF8PROC_COMPAT};
    case Letters::nfkd: return {stable | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    case Letters::lower: return {0, lower_letter};
    case Letters::upper: return {0, upper_letter};
    case Letters::fold: return {stable | UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD};
    case Letters::without_accents: return {stable | UTF8PROC_COMPOSE | UTF8PROC_STRIPMARK};
  }
  return {};
}

}  // namespace

Tensor with_letters(std::string_view op, const Tensor& x, Letters how, const Where& where) {
  if (is_later(x)) return apply1(letters_op, {&x}, LettersParams{how}, where);
  require_texts(op, x, where);
  const Way way = way_of(how);
  const Texts texts(x, x.shape());
  return made<std::string>(
      x.shape(),
      [&](int64_t i) {
        bool sound = true;
        std::string s = rewritten(texts[i], way.options, way.each, sound);
        if (!sound) fail(op, fmt::format("the string at {} is no UTF-8", place_in(x.shape(), i)), where);
        return s;
      },
      false);
}

}  // namespace rill::strings
