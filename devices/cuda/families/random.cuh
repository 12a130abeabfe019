// Random bits, and draws from distributions: from the same words as on the CPU.
namespace rill::cuda {

RILL u64 key_word(const Draws& s, int i) { return *RILL_AT((const u64*)(s.key + i * s.key_step)); }

// A thread computes a block of four words.
RILL void random_bits(const Draws& s) {
  const u64 seed = key_word(s, 0), draw = key_word(s, 1);
  for (i64 q = first_thread(); q < (s.count + 3) / 4; q += all_threads()) {
    const philox::Counter words = philox::block_of(seed, draw, u64(q));
    for (i64 i = 0; i < 4 && 4 * q + i < s.count; ++i) *RILL_AT((u32*)s.out[0] + 4 * q + i) = words[i];
  }
}

template <class T>
RILL T element(const char* in, i64 i) { return *RILL_AT((const T*)in + i); }

template <class T>
RILL void gamma(const Draws& s) {
  const variates::Key key(key_word(s, 0), key_word(s, 1));
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    variates::Stream stream(key, q);
    const variates::GammaDraw draw = variates::draw_gamma(stream, f64(element<T>(s.in[0], q)));
    *RILL_AT((T*)s.out[0] + q) = T(draw.x);
    *RILL_AT((T*)s.out[1] + q) = T(draw.log_x);
  }
}

RILL void poisson(const Draws& s) {
  const variates::Key key(key_word(s, 0), key_word(s, 1));
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    variates::Stream stream(key, q);
    *RILL_AT((i64*)s.out[0] + q) = i64(variates::draw_poisson(stream, element<f64>(s.in[0], q)));
  }
}

RILL void binomial(const Draws& s) {
  const variates::Key key(key_word(s, 0), key_word(s, 1));
  for (i64 q = first_thread(); q < s.count; q += all_threads()) {
    variates::Stream stream(key, q);
    const f64 n = element<f64>(s.in[0], q), p = element<f64>(s.in[1], q);
    *RILL_AT((i64*)s.out[0] + q) = i64(variates::draw_binomial(stream, n, p));
  }
}

RILL void multinomial(const Draws& s) {
  const variates::Key key(key_word(s, 0), key_word(s, 1));
  for (i64 row = first_thread(); row < s.count; row += all_threads()) {
    variates::Stream stream(key, row);
    const i64 first = row * s.classes;
    variates::draw_multinomial(
        stream, element<f64>(s.in[0], row), s.classes, [&](i64 k) { return element<f64>(s.in[1], first + k); },
        [&](i64 k, i64 count) { *RILL_AT((i64*)s.out[0] + first + k) = count; });
  }
}

}  // namespace rill::cuda
