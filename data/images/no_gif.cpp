// GIF in a build without the gif feature; see codecs.h.
#include "rill/data/images/codec.h"

namespace rill::images {
namespace {
[[noreturn]] void refuse(std::string_view op, const Where& where) {
  fail_no_feature(op, "gif", "giflib with its header (libgif-dev)", where);
}
}  // namespace

Tensor decode_gif(const Bytes&, const DecodeOptions&, Where where) { refuse("decode_gif", where); }
Tensor first_of_gif(const Bytes&, const DecodeOptions&, const Where& where) { refuse("decode_gif", where); }
Tensor encode_gif(const Tensor&, const GifOptions&, Where where) { refuse("encode_gif", where); }

}  // namespace rill::images
